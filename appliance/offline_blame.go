package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"weir/checkpoint"
	"weir/duckext"
	"weir/state"
)

// A reading is a view of a checkpoint that a query read.
type reading struct {
	checkpoint *checkpoint.Checkpoint
	view       *checkpoint.View
}

// blame adds to a query's failure the group whose own result fails, as that of a
// running appliance does: see backend.blame.
func (o *offline) blame(ctx context.Context, e *duckext.QueryError, memory int64) error {
	if e.Code != duckext.CodeFailed || len(o.read) == 0 {
		return e
	}
	fin, done, err := offlineFinals(memory, slog.New(slog.DiscardHandler))
	if err != nil {
		return e
	}
	defer done()
	shows := newFinals(fin)
	defer shows.close()
	for _, r := range o.read {
		key, why, err := r.failing(ctx, shows, e.Message)
		if err != nil || why == "" {
			continue
		}
		point := ""
		if r.checkpoint != o.f.Checkpoint {
			point = " in " + pointName(r.checkpoint.Manifest)
		}
		said := *e
		said.Message = fmt.Sprintf("%s, which is also why the group %s of view %s%s is in error", e.Message, key, r.view.Name, point)
		return &said
	}
	return e
}

// failing is the group whose results fail with a message.
func (r reading) failing(ctx context.Context, shows *finals, message string) (key, why string, err error) {
	t, err := r.checkpoint.Table(r.view.Name)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	p := r.view.Plan
	show, err := shows.shower(ctx, &p)
	if err != nil {
		return "", "", err
	}
	defer show.close()
	return failingGroup(ctx, t, state.ViewID(r.view.ID), &p, show.results, message)
}
