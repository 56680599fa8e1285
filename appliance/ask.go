package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/duckext"
	"weir/queryable"
	"weir/state"
	"weir/state/sqltype"
)

// newPool starts the query processes: this binary again, with its hidden verb.
func (a *Appliance) newPool(memory int64) (*duckext.Pool, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	tmp := filepath.Join(a.cfg.Data, "tmp")
	if err := os.RemoveAll(tmp); err != nil { // left by processes that were killed
		return nil, fmt.Errorf("clear %s: %w", tmp, err)
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of query processes: %w", err)
	}
	return duckext.NewPool(duckext.PoolOptions{
		Command: []string{exe, "query-worker"}, Size: queryProcesses, Timeout: a.cfg.QueryTimeout,
		Memory: memory, TempDir: tmp, Logger: a.log,
	}, a), nil
}

// queryProcesses is how many queries run at once.
const queryProcesses = 2

// ask runs a query in a query process.
func (b backend) ask(ctx context.Context, r queryable.QueryRequest) (*queryable.Rows, error) {
	req := duckext.Request{ID: r.ID, SQL: r.SQL, MaxRows: r.MaxRows, MaxBytes: r.MaxSize}
	var err error
	switch {
	case len(r.Named) > 0:
		req.Params, err = json.Marshal(r.Named)
	case len(r.Params) > 0:
		req.Params, err = json.Marshal(r.Params)
	}
	if err != nil {
		return nil, queryable.Errorf(queryable.BadRequest, "parameters: %v", err)
	}
	ctx, w := withWitness(ctx)
	res, err := b.pool.Query(ctx, req)
	if e, ok := errors.AsType[*duckext.QueryError](err); ok {
		err = b.blame(ctx, w, e)
	}
	if err != nil {
		return nil, queryError(err)
	}
	rows := &queryable.Rows{
		Answer:    w.answer(queryable.Answer{Epoch: res.Epoch, Positions: b.leased.positions(res.Epoch)}),
		Truncated: func() bool { return res.Truncated },
		Partial:   w.parts,
		Undecoded: w.undecoded.Load,
	}
	for _, c := range res.Columns {
		t, err := sqltype.Parse(c.Type)
		if err != nil { // a type that only a query has, such as ENUM: its text travels
			t = sqltype.Type{ID: sqltype.Varchar}
		}
		rows.Columns = append(rows.Columns, queryable.Column{Field: sqltype.Field{Name: c.Name, Type: t}})
	}
	rows.Backfilling = w.backfilling(b.store.Catalog())
	rows.Records, err = array.NewRecordReader(res.Schema, res.Batches)
	return rows, err
}

// queryError turns the end of a query into the client's error.
func queryError(err error) error {
	if e, ok := errors.AsType[*queryable.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*duckext.QueryError](err); ok {
		codes := map[string]queryable.Code{
			duckext.CodeSyntax: queryable.BadRequest, duckext.CodeRefused: queryable.Forbidden, duckext.CodeFailed: queryable.BadRequest, duckext.CodeParams: queryable.BadRequest,
			duckext.CodeTimeout: queryable.Timeout, duckext.CodeCancelled: queryable.Cancelled, duckext.CodeStopped: queryable.Cancelled,
			duckext.CodeMemory: queryable.TooLarge, duckext.CodeCrashed: queryable.Internal,
		}
		code, ok := codes[e.Code]
		if !ok {
			code = queryable.Internal
		}
		return &queryable.Error{Code: code, Message: e.Message, Position: e.Offset, Cause: err}
	}
	if e, ok := errors.AsType[*duckext.UnknownNameError](err); ok {
		return &queryable.Error{Code: queryable.BadRequest, Message: err.Error(), Position: e.Offset, Cause: err}
	}
	switch {
	case errors.Is(err, duckext.ErrBusy):
		return queryable.Errorf(queryable.Busy, "%w", err)
	case errors.Is(err, duckext.ErrClosed):
		return queryable.Errorf(queryable.Unavailable, "%w", err)
	}
	return err
}

// leased remembers which positions the epochs of recent queries stand for.
type leased struct {
	mu    sync.Mutex
	order []uint64
	at    map[uint64][]queryable.Position
}

const leasesKept = 64

func (l *leased) note(sn *state.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.at[sn.Epoch()]; ok {
		return
	}
	if l.at == nil {
		l.at = map[uint64][]queryable.Position{}
	}
	var all []queryable.Position
	cat := sn.Catalog()
	for i := range cat.Sources {
		all = append(all, positions(sn.Positions(cat.Sources[i].Cursor))...)
	}
	for i := range cat.Views { // one that still reads old records stands lower
		all = append(all, positions(sn.Positions(cat.Views[i].Cursor))...)
	}
	l.at[sn.Epoch()] = all
	l.order = append(l.order, sn.Epoch())
	if len(l.order) > leasesKept {
		delete(l.at, l.order[0])
		l.order = l.order[1:]
	}
}

func (l *leased) positions(epoch uint64) []queryable.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[epoch]
}
