package ddl

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The formats that a view can be exported in.
const (
	Iceberg = "iceberg"
	Parquet = "parquet"
)

// An Export is what the options of a materialized view say about its export.
type Export struct {
	With   Span   // from WITH to the end of the options
	Format string // Iceberg or Parquet
	// To is the directory it goes to, below that of all exports: names with / between
	// them, none of them empty, . or .., or beginning with a dot. It is the view's
	// name where the statement does not say.
	To    string
	Every time.Duration // at most so often; 0 is with each checkpoint
	Keep  int           // exports that stay
}

// ViewOptions are all options that CREATE MATERIALIZED VIEW knows.
func ViewOptions() []OptionDoc {
	return []OptionDoc{
		{Name: "export", Values: []string{Iceberg, Parquet}, Doc: "write the view to files after checkpoints, as an Iceberg table or as Parquet"},
		{Name: "export_to", Doc: "the directory, below that of --export-dir", check: checkExportTo},
		{Name: "export_every", Doc: "the least time between two exports, for example '5 minutes'", check: checkExportEvery},
		{Name: "export_keep", Default: "3", Doc: "how many exports stay, the newest included: 1 to 10000", check: checkExportKeep},
	}
}

const materializedOptions = "CREATE MATERIALIZED VIEW name WITH (export = 'iceberg') AS SELECT ..."

// viewOptions reads WITH (name = 'value', ...) of the view with that name.
func (p *parser) viewOptions(view Name) (*Export, error) {
	start := p.tok.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	open := p.tok.start
	o, err := p.options(materializedOptions, p.knownViewOption)
	if err != nil {
		return nil, err
	}
	if _, ok := o["export"]; !ok {
		if len(o) == 0 {
			return nil, p.errorAt(open, "there is no option between the parentheses", "leave WITH () out, or write WITH (export = 'iceberg')")
		}
		return nil, p.errorAt(open, "option export is missing: the others say how it is done", "add export = 'iceberg' or export = 'parquet'")
	}
	// Their checks passed.
	every, _ := parseEvery(o["export_every"])
	keep, _ := strconv.Atoi(o["export_keep"])
	if keep == 0 {
		keep = 3
	}
	to, ok := o["export_to"]
	if !ok {
		to = view.Text
		if err := checkExportTo(to); err != nil {
			return nil, p.errorAt(view.Offset, "the view's name is no name of a directory: "+err.Error(), "add export_to = '...'")
		}
	}
	return &Export{With: p.spanFrom(start), Format: o["export"], To: to, Every: every, Keep: keep}, nil
}

func (p *parser) knownViewOption(at int, name string) (OptionDoc, error) {
	var names []string
	for _, d := range ViewOptions() {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	switch {
	case slices.Contains([]string{"retention", "max_groups", "max_bytes", "on_full"}, name):
		return OptionDoc{}, p.errorAt(at, "option "+name+" is not supported yet: a view keeps its groups for ever", "leave it out")
	case slices.ContainsFunc(SourceOptions(), func(d OptionDoc) bool { return d.Name == name }):
		return OptionDoc{}, p.errorAt(at, "option "+name+" belongs to a source", "write it into CREATE SOURCE")
	}
	hint := "options are " + strings.Join(names, ", ")
	if n := Nearest(name, names); n != "" {
		hint = "did you mean " + n + "?"
	}
	return OptionDoc{}, p.errorAt(at, "unknown option "+name, hint)
}

// checkExportTo lets a statement name nothing outside the directory of exports, on
// any system.
func checkExportTo(v string) error {
	switch {
	case strings.Contains(v, "://"):
		return errors.New("exports go to directories only, not to object storage")
	case strings.HasPrefix(v, "/"), strings.Contains(v, `\`), strings.Contains(v, ":"):
		return fmt.Errorf("'%s' is no path below --export-dir: no \\ or :, and no / at the beginning", v)
	case len(v) > 500:
		return errors.New("the path is longer than 500 bytes")
	}
	for part := range strings.SplitSeq(v, "/") {
		switch {
		case part == "" && v != "":
			return fmt.Errorf("'%s' has an empty name between two /, or at its end", v)
		case part == "":
			return errors.New("the path is empty")
		case part[0] == '.':
			return fmt.Errorf("'%s' has a name that begins with a dot: an export stays below --export-dir, and hides nothing", v)
		case len(part) > 200:
			return errors.New("a name in the path is longer than 200 bytes")
		case !plainName(part):
			return errors.New("the path has characters that cannot be seen, or is no UTF-8")
		}
	}
	return nil
}

// plainName says whether all of a name can be read.
func plainName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == '�' || r != ' ' && !strconv.IsPrint(r) })
}

func checkExportEvery(v string) error {
	_, err := parseEvery(v)
	return err
}

// parseEvery reads a number and a unit; "" is no time.
func parseEvery(v string) (time.Duration, error) {
	if v == "" {
		return 0, nil
	}
	units := map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}
	if f := strings.Fields(v); len(f) == 2 {
		n, err := strconv.ParseInt(f[0], 10, 64)
		u := units[strings.TrimSuffix(strings.ToLower(f[1]), "s")]
		if err == nil && u > 0 && n > 0 && n <= math.MaxInt64/int64(u) {
			return time.Duration(n) * u, nil
		}
	}
	return 0, fmt.Errorf("'%s' is no whole number of seconds, minutes, hours or days", v)
}

func checkExportKeep(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 1 || n > 10_000 {
		return fmt.Errorf("'%s' is not such a number", v)
	}
	return nil
}
