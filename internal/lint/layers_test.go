// Package lint holds the rules about Weir's own code that a compiler does not
// know. They run as tests.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers is the direction of imports: a package may import packages of lower
// layers only. A package that is not listed belongs to the longest listed path
// that it lies under.
var layers = map[string]int{
	"internal/atomicfile":    0,
	"internal/recordbatch":   0,
	"internal/testkit":       0,
	"internal/lint":          0,
	"state/sqltype":          0,
	"appliance/devbroker":    0,
	"appliance/demo":         0,
	"queryable/client":       0,
	"checkpoint/objectstore": 1,
	"state/codec":            1,
	"state/ddl":              1,
	"state/agg":              2,
	"state/plan":             3,
	"state":                  4,
	"ingest/decode":          4,
	"ingest/kafka":           4,
	"duckext":                4,
	"checkpoint":             5,
	"ingest":                 5,
	"queryable":              6,
	"export":                 6,
	"web":                    7,
	"appliance":              8,
	"cmd/weir":               9,
	"bench":                  9,
}

// forbidden names packages that a part of the tree must not reach even by way
// of others, so that its tests stay fast.
var forbidden = map[string][]string{
	"state":      {"github.com/duckdb/", "github.com/segmentio/", "github.com/gofiber/"},
	"checkpoint": {"github.com/duckdb/", "github.com/segmentio/", "github.com/gofiber/"},
	"ingest":     {"github.com/duckdb/", "github.com/gofiber/"},
}

func layerOf(pkg string) (int, bool) {
	for p := pkg; p != "."; p = filepath.Dir(p) {
		if l, ok := layers[p]; ok {
			return l, true
		}
	}
	return 0, false
}

type file struct {
	path string
	ast  *ast.File
	fset *token.FileSet
}

func files(t *testing.T) []file {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		out = append(out, file{filepath.ToSlash(rel), f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

func imports(f file) []string {
	var out []string
	for _, i := range f.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range files(t) {
		pkg := filepath.ToSlash(filepath.Dir(f.path))
		from, ok := layerOf(pkg)
		if !ok {
			t.Errorf("%s: package %s has no layer", f.path, pkg)
			continue
		}
		for _, imp := range imports(f) {
			dep, ours := strings.CutPrefix(imp, "weir/")
			if !ours || dep == pkg {
				continue
			}
			test := strings.HasSuffix(f.path, "_test.go")
			if strings.HasPrefix(dep, "internal/testkit") {
				if !test && !strings.HasPrefix(pkg, "internal/testkit") {
					t.Errorf("%s: %s is for tests only", f.path, imp)
				}
				continue
			}
			to, _ := layerOf(dep)
			within := strings.HasPrefix(dep, pkg+"/") || strings.HasPrefix(pkg, dep+"/")
			if test && strings.HasPrefix(dep, "appliance/devbroker") {
				continue
			}
			if to > from || to == from && !within {
				t.Errorf("%s: %s (layer %d) imports %s (layer %d)", f.path, pkg, from, dep, to)
			}
		}
	}
}

func TestForbiddenDependencies(t *testing.T) {
	direct := map[string]map[string]bool{}
	for _, f := range files(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		pkg := filepath.ToSlash(filepath.Dir(f.path))
		if direct[pkg] == nil {
			direct[pkg] = map[string]bool{}
		}
		for _, i := range imports(f) {
			direct[pkg][i] = true
		}
	}
	for top, bad := range forbidden {
		for pkg := range direct {
			if pkg != top && !strings.HasPrefix(pkg, top+"/") {
				continue
			}
			seen := map[string]bool{}
			var walk func(p string)
			walk = func(p string) {
				if seen[p] {
					return
				}
				seen[p] = true
				for i := range direct[p] {
					if slices.ContainsFunc(bad, func(b string) bool { return strings.HasPrefix(i, b) }) && !(top == "ingest" && strings.HasPrefix(i, "github.com/segmentio/")) {
						t.Errorf("%s reaches %s by way of %s", pkg, i, p)
					}
					if d, ours := strings.CutPrefix(i, "weir/"); ours {
						walk(d)
					}
				}
			}
			walk(pkg)
		}
	}
}

// ends are the files that may end the process: state.Options.Fatal, when the disk
// failed a commit (weir open first removes its state), and the query process, which
// its parent watches.
var ends = []string{"state/open.go", "appliance/cmd_open.go", "duckext/worker.go"}

// TestNoSleepsInTests keeps tests from waiting by the clock, but for a fake one,
// and code from ending the process behind its caller's back.
func TestNoSleepsInTests(t *testing.T) {
	for _, f := range files(t) {
		test := strings.HasSuffix(f.path, "_test.go")
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			call := x.Name + "." + sel.Sel.Name
			switch {
			case test && call == "time.Sleep" && !slices.Contains(imports(f), "testing/synctest"):
				t.Errorf("%s: time.Sleep in a test: wait for what it waits for", f.fset.Position(n.Pos()))
			case call == "os.Exit" && slices.Contains(ends, f.path):
			case !test && (call == "log.Fatal" || call == "log.Fatalf" || call == "os.Exit") && !strings.HasPrefix(f.path, "cmd/") && f.path != "bench/main.go":
				t.Errorf("%s: %s outside cmd: return an error", f.fset.Position(n.Pos()), call)
			}
			return true
		})
	}
}

func TestNoInit(t *testing.T) {
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init function: wire it in package appliance", f.path)
			}
		}
	}
}

func TestModulePinsTheToolchain(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "\ngo 1.26") {
		t.Error("go.mod does not say go 1.26")
	}
}
