package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/duckext"
	"weir/state/ddl"
	"weir/state/plan"
)

// longest is how long the SELECT of a view may be, in bytes. Query processes
// take statements of 64 KiB.
const longest = 64_000

// survives lets a query process parse, bind and optimise the SELECT of a new
// view before this process does: there are statements of which DuckDB dies, and
// some that it plans for minutes. What else is wrong with the statement is left
// to the planner, which says it better.
func (a *Appliance) survives(ctx context.Context, sel ddl.Span) error {
	if n := len(sel.Text()); n > longest {
		return sel.Errorf(0, "shorten it", fmt.Sprintf("a SELECT of %d bytes is too long: the limit is %d", n, longest))
	}
	_, err := a.pool.Query(ctx, duckext.Request{SQL: "EXPLAIN " + sel.Text(), MaxRows: 1})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, duckext.ErrBusy), errors.Is(err, duckext.ErrClosed):
		return queryError(err)
	}
	e, ok := errors.AsType[*duckext.QueryError](err)
	if !ok {
		return nil
	}
	switch e.Code {
	case duckext.CodeCrashed, duckext.CodeTimeout, duckext.CodeMemory:
		return sel.Errorf(0, "simplify it", "DuckDB cannot plan this SELECT: "+e.Message)
	case duckext.CodeCancelled, duckext.CodeStopped:
		return queryError(err)
	}
	return nil
}

// acyclic refuses to give a view that others read a SELECT that reads them.
func (a *Appliance) acyclic(ctx context.Context, s *ddl.CreateView, reads []string) error {
	cat := a.store.Catalog()
	var seen []string
	var reaches func(name string) (bool, error)
	reaches = func(name string) (bool, error) {
		if strings.EqualFold(name, s.Name.Text) {
			return true, nil
		}
		q, ok := cat.Query(name)
		if !ok || slices.Contains(seen, q.Name) {
			return false, nil
		}
		seen = append(seen, q.Name)
		refs, err := plan.References(ctx, a.engine, q.Select)
		if err != nil {
			return false, fmt.Errorf("view %s: %w", q.Name, err)
		}
		for _, r := range refs {
			if yes, err := reaches(r.Name); yes || err != nil {
				return yes, err
			}
		}
		return false, nil
	}
	for _, name := range reads {
		yes, err := reaches(name)
		switch {
		case err != nil:
			return err
		case yes && strings.EqualFold(name, s.Name.Text):
			return s.Select.Errorf(0, "read something else", "view "+s.Name.Text+" can't read itself")
		case yes:
			return s.Select.Errorf(0, "read something else", fmt.Sprintf("view %s can't read %s, which reads %[1]s", s.Name.Text, name))
		}
	}
	return nil
}
