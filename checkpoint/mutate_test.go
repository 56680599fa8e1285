package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"weir/state"
)

// aMember is a place in a manifest, such as views.0.columns.2.sql_type.
type aMember struct {
	path  string
	where any // the object or the list that has it
	key   any // its name or index there
}

func (a aMember) get() any {
	if w, ok := a.where.(map[string]any); ok {
		return w[a.key.(string)]
	}
	return a.where.([]any)[a.key.(int)]
}

func (a aMember) set(v any) {
	switch w := a.where.(type) {
	case map[string]any:
		w[a.key.(string)] = v
	case []any:
		w[a.key.(int)] = v
	}
}

// members lists all of a tree, in order.
func members(tree any, prefix string) (out []aMember) {
	switch w := tree.(type) {
	case map[string]any:
		var names []string
		for n := range w {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			out = append(out, aMember{prefix + n, w, n})
			out = append(out, members(w[n], prefix+n+".")...)
		}
	case []any:
		for i := range w {
			n := strconv.Itoa(i)
			out = append(out, aMember{prefix + n, w, i})
			out = append(out, members(w[i], prefix+n+".")...)
		}
	}
	return out
}

func parsed(t *testing.T, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	tree := map[string]any{}
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "checksum")
	return tree
}

// seal is a tree as a manifest's text, with a right checksum.
func seal(t *testing.T, tree any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.TrimSuffix(b, []byte("\n}"))
	return append(b, checksumOf(b)...)
}

// everyMember writes a checkpoint whose manifest has every member there is, and
// returns its directory.
func everyMember(t *testing.T, fsys vfs.FS) string {
	r, f := rng(t), newFake()
	id := f.add(r, revenue(), 0, 1, false)
	rows := locatedRows(t, r, revenue(), 30)
	errs := array.NewStringBuilder(memory.DefaultAllocator)
	errs.Append("overflow")
	errs.AppendNulls(29)
	last := int(rows.NumCols()) - 1
	f.rows[id] = []arrow.RecordBatch{array.NewRecordBatch(rows.Schema(), append(slices.Clone(rows.Columns()[:last]), errs.NewArray()), 30)}
	change := f.addChanging(t, r, revenueNamed("changing"), 100)
	f.catalog.NextCursor = 3
	f.catalog.Views[0].Cursor = 2
	f.pos[2] = []state.Position{{Topic: "orders", TopicID: [16]byte{1, 2, 3, 15: 255}, Partition: 1, Next: 7}}
	f.catalog.Sources[0].Passed = []state.Span{{Position: f.pos[1][0], From: 3}}
	write(t, fsys, f)
	change()
	m := write(t, fsys, f)
	edit := strings.Repeat("0f", 16)
	m.Engine, m.Savepoint = "duckdb v1", "kept"
	m.Views[0].Edited = edit
	m.Edits = []Edit{{
		ID: edit, Kind: editMerge, Time: clock(), SQL: []string{"DELETE"},
		From:  []EditedOne{{Checkpoint: 1, Savepoint: "a", Epoch: 3, SHA256: strings.Repeat(edit, 2)}},
		Views: []EditedView{{View: "v", Before: []int64{3}, After: 2, Removed: 1}},
	}}
	root := Path(fsys, dir, m.Checkpoint)
	if err := m.write(fsys, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// free are the members that nobody but people or the running appliance reads: any
// text or number is as good as another, and none is, too.
var free = regexp.MustCompile(`^(writer|engine|savepoint|history|based_on|next_id|next_cursor|epoch|checkpoint` +
	`|sources\.0\.(sql|options.*|columns(\.0(\.name)?)?)|cursors\.\d\.records` +
	`|views\.\d\.(sql|state_bytes|created_epoch|edited|first.*)` +
	`|views\.\d\.plan\.(select|partial|final|visible|inputs.*|(keys|accumulators|results)\.\d+\.(expr|partial)|results\.2\.acc)` +
	`|queries.*|quarantine\.sources\.0\.(total|by_view.*|passed.*)` +
	`|edits(\.0\.(sql.*|views.*|from\.0\.(checkpoint|savepoint|epoch)))?|based_on\..*)$`)

// inFiles are the members that the files themselves contradict when they are read.
var inFiles = regexp.MustCompile(`\.tail\.crc32c$|\.file\.sha256$|^views\.\d\.(errors|groups|parts\.\d\.(rows|sha256))$`)

// alike are members of which there are many.
var alike = regexp.MustCompile(`^(views\.1\.(plan|columns|positions|first)|quarantine\.columns\.([4-9]|\d\d)|views\.0\.columns\.[1569])\b`)

// Whatever stands in the place of any one member, in a manifest with a right
// checksum: it is refused by name when it is opened; or all can be read and
// restored, and is what it was. Nothing panics, now or later.
func TestEveryMemberOfAManifest(t *testing.T) {
	fsys := vfs.NewMem()
	root := everyMember(t, fsys)
	path := fsys.PathJoin(root, ManifestName)
	good, err := readAll(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := allOf(t, fsys, root)
	if err != nil {
		t.Fatal(err)
	}
	tree := parsed(t, good)
	all := members(tree, "")
	if len(all) < 400 {
		t.Fatalf("the manifest has %d members only", len(all))
	}
	accepted := 0
	for _, m := range all {
		if alike.MatchString(m.path) {
			continue
		}
		was, read := m.get(), false
		for _, v := range []any{nil, json.Number("0"), json.Number("-1"), json.Number("4611686018427387904"), "", "x", map[string]any{}, []any{}} {
			m.set(v)
			text := seal(t, tree)
			put(t, fsys, path, text)
			what := fmt.Sprintf("%s = %v", m.path, v)
			_, err := Open(fsys, root)
			var named *Error
			if err != nil {
				if !errors.As(err, &named) || named.Path != path || errors.Is(err, ErrDamaged) {
					t.Errorf("%s: the error does not name the manifest: %v", what, err)
				}
				continue
			}
			accepted++
			if !free.MatchString(m.path) && !inFiles.MatchString(m.path) && !same(good, text) {
				t.Errorf("%s is accepted", what)
			}
			if read && !inFiles.MatchString(m.path) { // one value is as free as another
				continue
			}
			read = true
			got, err := allOf(t, fsys, root)
			switch {
			case err != nil:
				if !errors.As(err, &named) || !inFiles.MatchString(m.path) {
					t.Errorf("%s: it opens, and does not read: %v", what, err)
				}
			case !cmp.Equal(want, got):
				t.Errorf("%s: it reads as something else", what)
			case inFiles.MatchString(m.path) && !same(good, text):
				t.Errorf("%s is accepted", what)
			}
		}
		m.set(was)
	}
	if accepted < 50 {
		t.Errorf("%d changes were accepted: what is refused may be so for another reason", accepted)
	}
}

// A type that is null, or not there, is none, and is told by the column's name.
func TestManifestWithoutTypes(t *testing.T) {
	fsys := vfs.NewMem()
	root := everyMember(t, fsys)
	path := fsys.PathJoin(root, ManifestName)
	good, err := readAll(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		value any
		want  string
	}{
		{"views.0.columns.2.sql_type", nil, `view revenue_by_city: column "orders" has no name of its own or no type`},
		{"views.0.columns.2.sql_type", "NOPE", "unknown type NOPE"},
		{"views.0.plan.results.3", map[string]any{}, "view revenue_by_city: plan: column 3 has no name of its own"},
		{"views.0.plan.keys.1.type", nil, "view revenue_by_city: plan: column __key_2 has no type"},
		{"views.0.plan.accumulators.1.type", nil, "view revenue_by_city: plan: column __sum_amount has no type"},
		{"sources.0.columns.0.type", nil, "source orders: column city has no type"},
		{"queries.0.columns.0.type", nil, "plain view top: column one has no type"},
		{"quarantine.columns.0.sql_type", nil, "the quarantine has other columns"},
	} {
		tree := parsed(t, good)
		for _, m := range members(tree, "") {
			if m.path == c.path {
				m.set(c.value)
			}
		}
		put(t, fsys, path, seal(t, tree))
		if _, err := Open(fsys, root); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v", c.path, c.value, err)
		}
	}
}

// same says whether two manifests are one to this package: null is a list without
// elements.
func same(a, b []byte) bool {
	var x, y Manifest
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	one, err1 := json.Marshal(x)
	two, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}

// allOf reads every row of a checkpoint in every way, and restores it.
func allOf(t *testing.T, fsys vfs.FS, root string) (out []string, err error) {
	t.Helper()
	c, err := Open(fsys, root)
	if err != nil {
		return nil, err
	}
	for i := range c.Manifest.Views {
		tab, err := c.Table(c.Manifest.Views[i].Name)
		if err != nil {
			return nil, err
		}
		defer tab.Close()
		scan, err := tab.Scan(t.Context(), state.ScanRequest{Extra: allExtra})
		if err != nil {
			return nil, err
		}
		rows, err := tab.Rows(t.Context(), nil, nil)
		if err != nil {
			return nil, err
		}
		results, err := tab.Results(t.Context(), nil)
		if err != nil {
			return nil, err
		}
		for _, in := range []array.RecordReader{scan, rows, results} {
			defer in.Release()
			for in.Next() {
				out = append(out, renderRecord(in.RecordBatch())...)
			}
			err := in.Err()
			if err != nil && in == results && !errors.Is(err, ErrDamaged) {
				out = append(out, err.Error()) // of a group in error
			} else if err != nil {
				return nil, err
			}
		}
	}
	_, err = RestoreFrom(t.Context(), fsys, root, "data", state.Options{FS: vfs.NewMem()})
	return out, err
}
