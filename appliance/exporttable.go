package appliance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cockroachdb/pebble/v2/vfs"

	"weir/checkpoint"
	"weir/export"
	"weir/export/iceberg"
	"weir/state/sqltype"
)

// table writes the view as the next snapshot of an Iceberg table.
func (c *checkpointExportCmd) table(ctx context.Context, s streams, t *checkpoint.Table, m *checkpoint.Manifest) error {
	if err := outside(vfs.Default, c.Output); err != nil {
		return err
	}
	columns, rows, err := c.rows(ctx, t)
	if err != nil {
		return err
	}
	defer rows.Release()
	snap, err := iceberg.Export(ctx, vfs.Default, c.Output, columns, rows, iceberg.Options{View: t.View.Name, Properties: snapshotProperties(t.View, m), Keep: c.keep()})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "snapshot %d, %d rows: %s\n", snap.ID, snap.Rows, snap.Metadata)
	return err
}

// rows are what is exported, in file form. The caller releases them.
func (c *checkpointExportCmd) rows(ctx context.Context, t *checkpoint.Table) ([]sqltype.Field, array.RecordReader, error) {
	if c.AllColumns {
		rows, err := t.Rows(ctx, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		columns, err := export.Columns(rows.Schema())
		if err != nil {
			rows.Release()
			return nil, nil, err
		}
		return columns, rows, nil
	}
	rows, err := t.Results(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	columns := t.View.Plan.ResultColumns()
	return columns, &fileRows{RecordReader: rows, columns: columns}, nil
}

// snapshotProperties say what a snapshot of a table is of: the epoch, and the
// positions as the header Weir-Position has them.
func snapshotProperties(v *checkpoint.View, m *checkpoint.Manifest) map[string]string {
	var at []string
	for _, p := range v.Positions {
		at = append(at, fmt.Sprintf("%s/%d:%d", p.Topic, p.Partition, p.Next))
	}
	props := map[string]string{
		"weir.view": v.Name, "weir.epoch": strconv.FormatUint(m.Epoch, 10), "weir.checkpoint": strconv.FormatUint(m.Checkpoint, 10),
		"weir.created": m.Created.UTC().Format(time.RFC3339Nano), "weir.positions": strings.Join(at, ","), "weir.whole": strconv.FormatBool(!wasBackfilling(m, v)),
	}
	if m.Savepoint != "" {
		props["weir.savepoint"] = m.Savepoint
	}
	return props
}
