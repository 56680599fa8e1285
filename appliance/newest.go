package appliance

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"weir/duckext"
	"weir/state"
	"weir/state/sqltype"
)

// newest is a source as a query sees it: its newest records, read at the first
// scan, the same for all scans of the query.
type newest struct {
	l       *lease
	src     *state.Source
	columns []sqltype.Field

	mu  sync.Mutex
	rec arrow.RecordBatch
	err error
}

func (n *newest) scan(ctx context.Context, s duckext.ScanSpec) (array.RecordReader, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = n.l.a.readOnly()
	}
	if n.rec == nil && n.err == nil {
		var refused int
		var more bool
		n.rec, refused, more, n.err = n.l.a.pipeline.Newest(ctx, n.src, n.columns, newestRecords)
		if more {
			n.l.witness.readPart(n.src.Name)
		}
		n.l.witness.undecoded.Add(int64(refused))
	}
	if n.err != nil {
		return nil, n.err
	}
	return wholeIn(n.rec, n.columns, s)
}
