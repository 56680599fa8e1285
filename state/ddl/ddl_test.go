package ddl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "parse":
				all, err := Parse(d.Input)
				if e, ok := errors.AsType[*Error](err); ok {
					return e.Caret(d.Input) + "\n"
				}
				var b strings.Builder
				for _, s := range all {
					b.WriteString(print(s))
				}
				return b.String()
			case "difference":
				was, now, _ := strings.Cut(d.Input, "\n=>\n")
				if diff := Difference(now, was); diff != "" {
					return diff + "\n"
				}
				return "same\n"
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func print(s Statement) string {
	var b strings.Builder
	switch s := s.(type) {
	case *CreateSource:
		fmt.Fprintf(&b, "source %q replace=%v if-not-exists=%v\n", s.Name.Text, s.OrReplace, s.IfNotExists)
		for _, c := range s.Columns {
			fmt.Fprintf(&b, "  column %q %s\n", c.Name, c.Type)
		}
		for _, d := range SourceOptions() {
			fmt.Fprintf(&b, "  %s=%q", d.Name, s.Options.Get(d.Name))
		}
		b.WriteString("\n")
	case *CreateMaterializedView:
		fmt.Fprintf(&b, "materialized %q replace=%v if-not-exists=%v\n", s.Name.Text, s.OrReplace, s.IfNotExists)
		if e := s.Export; e != nil {
			fmt.Fprintf(&b, "  export %s to %q every %s, keep %d: <%s>\n", e.Format, e.To, e.Every, e.Keep, e.With.Text())
		}
		fmt.Fprintf(&b, "  select <%s>\n", s.Select.Text())
	case *CreateView:
		fmt.Fprintf(&b, "view %q replace=%v if-not-exists=%v\n  select <%s>\n", s.Name.Text, s.OrReplace, s.IfNotExists, s.Select.Text())
	case *Explain:
		return "explain " + print(&s.View)
	case *Drop:
		fmt.Fprintf(&b, "drop %s %q if-exists=%v\n", s.Kind, s.Name.Text, s.IfExists)
	case *Show:
		fmt.Fprintf(&b, "show %s\n", s.What)
	case *Verify:
		fmt.Fprintf(&b, "verify %q\n", s.Name.Text)
	case *Checkpoint:
		b.WriteString("checkpoint\n")
	case *CreateSavepoint:
		fmt.Fprintf(&b, "savepoint %q if-not-exists=%v\n", s.Name.Text, s.IfNotExists)
	case *DropSavepoint:
		fmt.Fprintf(&b, "drop savepoint %q if-exists=%v\n", s.Name.Text, s.IfExists)
	case *Query:
		fmt.Fprintf(&b, "query <%s>\n", s.Text())
	}
	return b.String()
}

func TestParseOneWantsOne(t *testing.T) {
	for _, in := range []string{"", " -- nothing\n;", "SELECT 1; SELECT 2", "SELECT '\xff'"} {
		if s, err := ParseOne(in); err == nil {
			t.Errorf("%q: read as %v", in, s)
		}
	}
	if _, err := ParseOne("SELECT 1;;"); err != nil {
		t.Error(err)
	}
}

func TestStartIsInUTC(t *testing.T) {
	for in, want := range map[string]string{
		"2026-01-31":                      "2026-01-31T00:00:00Z",
		"2026-01-31 12:00:00":             "2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00.5+02:00":     "2026-01-31T10:00:00.5Z",
		"2026-01-31 12:00:00.123456789Z":  "2026-01-31T12:00:00.123456789Z",
		"2026-01-31 12:00:00.25-00:30":    "2026-01-31T12:30:00.25Z",
		"2026-01-31T12:00:00.000000-1:00": "",
		"1969-12-31":                      "",
		"yesterday":                       "",
		"Earliest":                        "",
	} {
		s, err := ParseStart(in)
		if got := s.Time.Format("2006-01-02T15:04:05.999999999Z07:00"); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
}

// FuzzParse wants every script to be read or refused with a place in it, and
// every statement to read the same alone.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"CREATE SOURCE o (a BIGINT, b STRUCT(x INT)[]) WITH (connector = 'kafka', topic = 't');",
		"CREATE MATERIALIZED VIEW v AS SELECT a FROM o GROUP BY a; SHOW VIEWS",
		"CREATE VIEW v AS SELECT $$;$$, E'\\';', \"a;\"\"\" /* ; /* */ */ -- ;\n;",
		"CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 'x')",
		"EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1", "DROP VIEW IF EXISTS a.b", "SELECT $1, .5e-3", "'", "E'\\", "$a$ $b$", "/*",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		all, err := Parse(script)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Offset < 0 || e.Offset > len(script) || e.Line < 1 || e.Column < 1 || e.Reason == "" {
				t.Fatalf("%q: error without a place: %#v", script, err)
			}
			e.Caret(script)
			return
		}
		for _, s := range all {
			one := SpanOf(s).Text()
			again, err := ParseOne(one)
			if err != nil {
				t.Fatalf("%q alone: %v", one, err)
			}
			if a, b := print(s), print(again); a != b {
				t.Fatalf("%q in a script is\n%s, alone\n%s", one, a, b)
			}
			if d := Difference(one, " "+one+" /* x */ ;"); d != "" {
				t.Fatalf("%q differs from itself: %s", one, d)
			}
		}
	})
}
