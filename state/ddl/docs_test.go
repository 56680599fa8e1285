package ddl

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedViewOptions holds the table of docs/sql.md against ViewOptions.
func TestDocumentedViewOptions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| option of a view | default | |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != len(ViewOptions()) {
		t.Fatalf("docs/sql.md has %d options, ViewOptions %d", len(rows), len(ViewOptions()))
	}
	for i, o := range ViewOptions() {
		if !strings.HasPrefix(rows[i], "| `"+o.Name+"` | ") || o.Default != "" && !strings.Contains(rows[i], "| `'"+o.Default+"'` |") {
			t.Errorf("option %s with default %q: docs/sql.md says %s", o.Name, o.Default, rows[i])
		}
		for _, v := range o.Values {
			if !strings.Contains(rows[i], "'"+v+"'") {
				t.Errorf("option %s: docs/sql.md does not name %q", o.Name, v)
			}
		}
	}
}

// TestDocumentedOptions holds the table of docs/sql.md against SourceOptions.
func TestDocumentedOptions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| option | default | |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != len(SourceOptions()) {
		t.Errorf("docs/sql.md has %d options, SourceOptions %d", len(rows), len(SourceOptions()))
	}
	for i, o := range SourceOptions() {
		cells := strings.Split(rows[i], " | ")
		want := "`'" + o.Default + "'`"
		switch {
		case o.Required:
			want = "required"
		case o.Default == "":
			want = "that of `--brokers`"
		}
		if cells[0] != "| `"+o.Name+"`" || cells[1] != want {
			t.Errorf("option %s with default %s: docs/sql.md says %s", o.Name, want, rows[i])
		}
		for _, v := range o.Values {
			if !strings.Contains(rows[i], "'"+v+"'") {
				t.Errorf("option %s: docs/sql.md does not name %q", o.Name, v)
			}
		}
	}
	for _, m := range MetadataColumns() {
		if !strings.Contains(string(doc), "| `"+m.Name+"` | "+m.Type.String()+" |") {
			t.Errorf("docs/sql.md does not have %s %s", m.Name, m.Type)
		}
	}
}
