package checkpoint

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/state"
	"weir/state/agg"
	"weir/state/plan"
	"weir/state/sqltype"
)

// Names of the system columns. The first three are those of package state.
const (
	slotColumn    = state.SlotColumn  // USMALLINT
	epochColumn   = state.EpochColumn // UBIGINT: the last change of the group
	visibleColumn = "__visible"       // BOOLEAN: false where HAVING fails
	errorColumn   = state.ErrorColumn // VARCHAR: why the group has no result, NULL when it has
	errorAtColumn = "__error_at"      // VARCHAR: where it failed, one of the constants below
	exactColumn   = "__exact"         // BLOB: values that their columns cannot hold

	deletedName = state.DeletedColumn // BOOLEAN, in deltas: the group is gone
)

// The values of __error_at.
const (
	errorMerge  = "merge"  // accumulators overflowed: the group stays in error
	errorResult = "result" // a result's expression failed: accumulators are right
	errorFile   = "file"   // a value does not fit its column: __exact has it if it is state
)

// Roles of a column: what a reader who merges two files needs to know of it.
const (
	RoleKey         = "key"
	RoleResult      = "result"
	RoleAccumulator = "accumulator"
	RoleSystem      = "system"
)

// A Column is what the manifest, and the metadata of the field, say of a column
// of a view's file. A column can be several things at once: a result that is a
// key is stored once, with role key and its place in both lists.
type Column struct {
	Name string       `json:"name"`
	Type sqltype.Type `json:"sql_type"`
	Role string       `json:"role"`
	// Result and Key are places, from 0, in SELECT and in GROUP BY.
	Result *int `json:"result,omitempty"`
	Key    *int `json:"key,omitempty"`
	// Accumulator is the accumulator's own name (__sum_amount), also where the
	// column bears the name of a result; Aggregate is the call it belongs to and
	// Merge the rule by which two values become one.
	Accumulator string   `json:"accumulator,omitempty"`
	Aggregate   string   `json:"aggregate,omitempty"`
	Merge       agg.Rule `json:"merge,omitempty"`
}

// field is the column in the file's schema.
func (c Column) field() arrow.Field {
	f := c.Type.FileField(c.Name)
	keys, values := f.Metadata.Keys(), f.Metadata.Values()
	add := func(k, v string) { keys, values = append(keys, "weir."+k), append(values, v) }
	add("role", c.Role)
	add("sql_type", c.Type.String())
	if c.Result != nil {
		add("result", strconv.Itoa(*c.Result))
	}
	if c.Key != nil {
		add("key", strconv.Itoa(*c.Key))
	}
	if c.Accumulator != "" {
		add("accumulator", c.Accumulator)
		add("aggregate", c.Aggregate)
		add("merge", string(c.Merge))
	}
	f.Metadata = arrow.NewMetadata(keys, values)
	return f
}

// A layout says where the columns of a view's file come from.
type layout struct {
	cols   []Column
	origin []origin // of cols, up to the system columns
	eval   []int    // results that the Finalizer computes, in SELECT order
	exact  bool     // a state column is narrower in the file
	schema *arrow.Schema
}

// An origin is a state column (keys, then accumulators), or a computed result.
type origin struct {
	state  int // index in StateColumns, or -1
	result int // index in layout.eval, or -1
}

// newLayout orders the columns: keys, results that are no key, accumulators
// that are no result, system columns.
func newLayout(v *plan.View, epoch uint64) (*layout, error) {
	l := &layout{}
	add := func(c Column, o origin) { l.cols, l.origin = append(l.cols, c), append(l.origin, o) }
	stored := map[int]bool{} // results that stand under a key
	for i, k := range v.Keys {
		c := Column{Name: k.Name, Type: k.Type, Role: RoleKey, Key: new(i)}
		for j, r := range v.Results {
			if r.Key == i && r.Name == k.Name && r.Type.Equal(k.Type) {
				c.Result, stored[j] = new(j), true
				break
			}
		}
		add(c, origin{i, -1})
	}
	accumulator := func(i int) Column {
		a := v.Accs[i]
		return Column{Name: a.Name, Type: a.Type, Role: RoleAccumulator, Accumulator: a.Name, Aggregate: a.Aggregate, Merge: a.Rule}
	}
	named := map[int]bool{} // accumulators that stand under a result's name
	for j, r := range v.Results {
		if stored[j] {
			continue
		}
		c, o := Column{Name: r.Name, Type: r.Type, Role: RoleResult}, origin{-1, -1}
		switch {
		case r.Acc >= 0 && r.Type.Equal(v.Accs[r.Acc].Type):
			o.state = len(v.Keys) + r.Acc
			if !named[r.Acc] { // a second name for it is a plain copy
				c, named[r.Acc] = accumulator(r.Acc), true
				c.Name = r.Name
			}
		case r.Key >= 0 && r.Type.Equal(v.Keys[r.Key].Type):
			o.state = r.Key
		default:
			o.result = len(l.eval)
			l.eval = append(l.eval, j)
		}
		c.Result = new(j)
		add(c, o)
	}
	for i := range v.Accs {
		if !named[i] {
			add(accumulator(i), origin{len(v.Keys) + i, -1})
		}
	}
	for _, f := range v.StateColumns() {
		l.exact = l.exact || narrower(f.Type)
	}
	l.cols = append(l.cols, systemColumns(l.exact)...)

	seen := map[string]bool{}
	fields := make([]arrow.Field, len(l.cols))
	for i, c := range l.cols {
		if seen[c.Name] {
			return nil, fmt.Errorf("view %s has two columns %q", v.Name, c.Name)
		}
		seen[c.Name], fields[i] = true, c.field()
	}
	meta := arrow.NewMetadata(
		[]string{versionKey, "weir.view", "weir.fingerprint", "weir.epoch"},
		[]string{strconv.Itoa(FormatVersion), v.Name, v.Fingerprint, strconv.FormatUint(epoch, 10)})
	l.schema = arrow.NewSchema(fields, &meta)
	return l, nil
}

func system(name string, id sqltype.ID) Column {
	return Column{Name: name, Type: sqltype.Type{ID: id}, Role: RoleSystem}
}

// deletedColumn is the last one of a delta.
func deletedColumn() Column { return system(deletedName, sqltype.Boolean) }

// delta is the schema of a delta over files that reach up to epoch since.
func (l *layout) delta(since uint64) *arrow.Schema {
	meta := l.schema.Metadata()
	m := arrow.NewMetadata(append(meta.Keys(), "weir.part", "weir.since"), append(meta.Values(), "delta", strconv.FormatUint(since, 10)))
	return arrow.NewSchema(append(slices.Clone(l.schema.Fields()), deletedColumn().field()), &m)
}

func systemColumns(exact bool) []Column {
	cols := []Column{
		system(slotColumn, sqltype.USmallInt),
		system(epochColumn, sqltype.UBigInt),
		system(visibleColumn, sqltype.Boolean),
		system(errorColumn, sqltype.Varchar),
		system(errorAtColumn, sqltype.Varchar),
	}
	if exact {
		cols = append(cols, system(exactColumn, sqltype.Blob))
	}
	return cols
}
