package checkpoint

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// check looks at a view by itself: its files, its plan and its columns, which
// refer to each other.
func (v *View) check() error {
	if len(v.Parts) == 1 || len(v.Parts) > 0 && v.File != (File{}) {
		return fmt.Errorf("%d parts and file %q", len(v.Parts), v.File.Name)
	}
	for i, f := range v.Files() {
		pattern := "views/*/[0-9][0-9][0-9]-delta.arrow"
		switch {
		case v.Whole():
			pattern = "views/*.arrow"
		case i == 0:
			pattern = "views/*/000-base.arrow"
		}
		if ok, err := path.Match(pattern, f.Name); !ok || err != nil || strings.HasPrefix(f.Name, "views/.") {
			return fmt.Errorf("file %q has another name than %s", f.Name, pattern)
		}
	}
	switch {
	case v.Whole() && v.File.Rows != v.Groups:
		return fmt.Errorf("%d groups, and %d rows in its file", v.Groups, v.File.Rows)
	case v.Groups < 0 || v.Errors < 0 || v.Errors > v.Groups:
		return fmt.Errorf("%d groups, %d of them in error", v.Groups, v.Errors)
	case v.Bytes < 0:
		return fmt.Errorf("its groups have %d bytes", v.Bytes)
	case len(v.Plan.Keys) == 0 && v.Groups > 1:
		return fmt.Errorf("%d groups, and no key", v.Groups)
	case v.Plan.Name != v.Name || v.Plan.Fingerprint != v.Fingerprint:
		return fmt.Errorf("its plan is of view %s with fingerprint %s, not %s", v.Plan.Name, v.Plan.Fingerprint, v.Fingerprint)
	}
	if err := checkPlan(&v.Plan); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := v.checkColumns(); err != nil {
		return err
	}
	for _, ps := range [][]Position{v.First, v.Positions} {
		if err := checkPositions(ps); err != nil {
			return err
		}
	}
	return nil
}

// checkPlan wants the parts of a plan to fit together.
func checkPlan(p *plan.View) error {
	for _, fs := range [][]sqltype.Field{p.StateColumns(), p.ResultColumns(), p.Inputs} {
		if err := checkFields(fs); err != nil {
			return err
		}
	}
	if p.Global != (len(p.Keys) == 0) {
		return fmt.Errorf("global is %v, with %d keys", p.Global, len(p.Keys))
	}
	for i, k := range p.Keys {
		selected := slices.ContainsFunc(p.Results, func(r plan.Result) bool { return r.Key == i })
		if k.Result < -1 || k.Result >= len(p.Results) || k.Result >= 0 && p.Results[k.Result].Key != i || k.Result < 0 && selected {
			return fmt.Errorf("key %s is not result %d", k.Name, k.Result)
		}
	}
	for _, r := range p.Results {
		switch {
		case r.Key < -1 || r.Key >= len(p.Keys) || r.Acc < -1 || r.Acc >= len(p.Accs) || r.Key >= 0 && r.Acc >= 0:
			return fmt.Errorf("result %s is key %d and accumulator %d", r.Name, r.Key, r.Acc)
		case r.Key >= 0 && !r.Type.Equal(p.Keys[r.Key].Type), r.Acc >= 0 && !r.Type.Equal(p.Accs[r.Acc].Type):
			return fmt.Errorf("result %s has another type than its key %d or accumulator %d", r.Name, r.Key, r.Acc)
		}
	}
	accs := make([]agg.Acc, len(p.Accs))
	for i, a := range p.Accs {
		accs[i] = a.Acc
	}
	_, err := agg.NewLayout(accs)
	return err
}

// checkColumns wants every key, accumulator and result of the plan to have its
// column, with the names and types that they have there, and the system columns.
func (v *View) checkColumns() error {
	p := &v.Plan
	keys, results, accs, names := 0, map[int]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range v.Columns {
		if c.Name == "" || names[c.Name] || c.Type.ID == sqltype.Invalid {
			return fmt.Errorf("column %q has no name of its own or no type", c.Name)
		}
		names[c.Name] = true
		if !slices.Contains([]string{RoleKey, RoleResult, RoleAccumulator, RoleSystem}, c.Role) {
			return fmt.Errorf("column %s has the role %q", c.Name, c.Role)
		}
		if (c.Key != nil) != (c.Role == RoleKey) || (c.Accumulator != "") != (c.Role == RoleAccumulator) || c.Role == RoleResult && c.Result == nil || c.Role == RoleSystem && c.Result != nil {
			return fmt.Errorf("column %s refers to something else than its role %s", c.Name, c.Role)
		}
		if c.Key != nil {
			if *c.Key != keys || keys >= len(p.Keys) || c.Name != p.Keys[keys].Name || !c.Type.Equal(p.Keys[keys].Type) {
				return fmt.Errorf("column %s is not key %d of the plan", c.Name, *c.Key)
			}
			keys++
		}
		if c.Result != nil {
			j := *c.Result
			if j < 0 || j >= len(p.Results) || results[j] || c.Name != p.Results[j].Name || !c.Type.Equal(p.Results[j].Type) {
				return fmt.Errorf("column %s is not result %d of the plan", c.Name, j)
			}
			results[j] = true
		}
		if c.Accumulator == "" {
			if c.Aggregate != "" || c.Merge != "" {
				return fmt.Errorf("column %s is no accumulator and has an aggregate", c.Name)
			}
			continue
		}
		i := slices.IndexFunc(p.Accs, func(a plan.Accumulator) bool { return a.Name == c.Accumulator })
		if i < 0 || accs[c.Accumulator] || !c.Type.Equal(p.Accs[i].Type) || c.Merge != p.Accs[i].Rule || c.Aggregate != p.Accs[i].Aggregate {
			return fmt.Errorf("column %s is not accumulator %s of the plan", c.Name, c.Accumulator)
		}
		if c.Result != nil && p.Results[*c.Result].Acc != i || c.Result == nil && c.Name != c.Accumulator {
			return fmt.Errorf("column %s has the accumulator %s of another", c.Name, c.Accumulator)
		}
		accs[c.Accumulator] = true
	}
	if keys < len(p.Keys) || len(results) < len(p.Results) || len(accs) < len(p.Accs) {
		return fmt.Errorf("columns of %d keys, %d results and %d accumulators, where the plan has %d, %d and %d", keys, len(results), len(accs), len(p.Keys), len(p.Results), len(p.Accs))
	}
	return v.checkSystem()
}

// checkSystem wants the system columns, and none that deltas have of their own.
func (v *View) checkSystem() error {
	exact := slices.ContainsFunc(v.Plan.StateColumns(), func(f sqltype.Field) bool { return narrower(f.Type) })
	for _, want := range systemColumns(exact) {
		i := v.column(want.Name)
		if i < 0 || v.Columns[i].Role != RoleSystem || !v.Columns[i].Type.Equal(want.Type) {
			return fmt.Errorf("it has no system column %s of type %s", want.Name, want.Type)
		}
	}
	if !exact && v.column(exactColumn) >= 0 || v.column(deletedName) >= 0 {
		return errors.New("it has a system column that is not its own")
	}
	return nil
}
