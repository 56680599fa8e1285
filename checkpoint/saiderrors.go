package checkpoint

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// saidErrors passes rows on that say whether they are shown, and whose __error and
// __error_at belong together. Readers show a group by them, so an error without a
// reason or a place would be taken for none.
type saidErrors struct {
	rawReader
	err, errAt int // columns
	visible    int // column
	path       string
	want       int64 // rows in error in all, -1 when that is not known
	found      int64
	bad        error
}

func (s *saidErrors) Next() bool {
	if s.bad != nil {
		return false
	}
	if !s.rawReader.Next() {
		if s.rawReader.Err() == nil && s.want >= 0 && s.found != s.want {
			s.bad = damaged(s.path, "%d of its groups are in error, not %d", s.found, s.want)
		}
		return false
	}
	s.bad = s.check(s.RecordBatch())
	return s.bad == nil
}

func (s *saidErrors) Err() error {
	if s.bad != nil {
		return s.bad
	}
	return s.rawReader.Err()
}

func (s *saidErrors) check(rec arrow.RecordBatch) error {
	text, at := rec.Column(s.err).(*array.String), rec.Column(s.errAt).(*array.String)
	if rec.Column(s.visible).NullN() > 0 {
		return damaged(s.path, "%s is NULL in a row of a batch", visibleColumn)
	}
	if n := text.Len(); text.NullN() == n && at.NullN() == n {
		return nil
	}
	s.found += int64(text.Len() - text.NullN())
	for i := range text.Len() {
		switch {
		case text.IsNull(i) && at.IsNull(i):
		case text.IsNull(i) || text.Value(i) == "":
			return damaged(s.path, "row %d of a batch is in error, and %s does not say why", i, errorColumn)
		case at.IsNull(i) || at.Value(i) != errorMerge && at.Value(i) != errorResult && at.Value(i) != errorFile:
			return damaged(s.path, "row %d of a batch is in error, and %s is not %s, %s or %s", i, errorAtColumn, errorMerge, errorResult, errorFile)
		}
	}
	return nil
}
