package state

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A replacement is one commit: no reader and no crash sees the name without
// what it stands for.
func TestReplace(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), Options{})
	defer func() { do(t, s.Close()) }()
	withViews(t, s, "by_id")
	do(t, s.CreateQuery(Query{Name: "top", Select: "SELECT 1"}))
	before := s.Epoch()
	do(t, s.ReplaceQuery(Query{Name: "TOP", Select: "SELECT 2"}))
	if q, ok := s.Catalog().Query("top"); !ok || q.Select != "SELECT 2" || len(s.Catalog().Queries) != 1 {
		t.Errorf("replaced: %+v", s.Catalog().Queries)
	}
	if now := s.Epoch(); now != before+1 {
		t.Errorf("epoch %d after %d: more than one commit", now, before)
	}
	if err := s.ReplaceQuery(Query{Name: "orders"}); !errors.Is(err, ErrExists) {
		t.Errorf("a source replaced by a query: %v", err)
	}

	old, _ := s.Catalog().Source("orders")
	if _, err := s.ReplaceSource(Source{Name: "orders"}); err == nil {
		t.Error("a source in use was replaced")
	}
	do(t, s.Drop("by_id"))
	before = s.Epoch()
	id, err := s.ReplaceSource(Source{Name: "ORDERS", SQL: "new"})
	do(t, err)
	src, ok := s.Catalog().Source("orders")
	if !ok || src.ID != id || id == old.ID || src.Cursor == old.Cursor || src.SQL != "new" || s.Epoch() != before+1 {
		t.Errorf("replaced %+v by %+v at epoch %d after %d", old, src, s.Epoch(), before)
	}
	_, err = s.ReplaceSource(Source{Name: "other"})
	do(t, err)
	verifyStore(t, s)
}
