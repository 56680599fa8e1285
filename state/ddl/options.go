package ddl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are a source's options as they were written, by lower-case name.
type Options map[string]string

// Get gives an option, or its default when the statement does not set it.
func (o Options) Get(name string) string {
	if v, ok := o[name]; ok {
		return v
	}
	for _, d := range SourceOptions() {
		if d.Name == name {
			return d.Default
		}
	}
	return ""
}

// An OptionDoc describes one option of CREATE SOURCE or of CREATE MATERIALIZED VIEW.
type OptionDoc struct {
	Name     string
	Default  string
	Required bool
	Values   []string // all there are; nil when check decides
	Doc      string
	check    func(value string) error
}

// SourceOptions are all options that CREATE SOURCE knows.
func SourceOptions() []OptionDoc {
	return []OptionDoc{
		{Name: "connector", Required: true, Values: []string{"kafka"}, Doc: "where records come from"},
		{Name: "brokers", Doc: "host:port, comma-separated; without it, those of --brokers", check: checkBrokers},
		{Name: "topic", Required: true, Doc: "the topic's name", check: checkTopic},
		{Name: "format", Default: "json", Values: []string{"json"}, Doc: "how a record's value is written"},
		{Name: "start", Default: "earliest", Doc: "where reading starts when no position is stored: earliest, latest, or a timestamp such as 2026-01-31 12:00:00 (UTC)", check: checkStart},
		{Name: "on_offset_reset", Default: "fail", Values: []string{"fail"}, Doc: "when the stored position is no longer in the log: fail stops the source and says what to do"},
		{Name: "on_error", Default: "quarantine", Values: []string{"quarantine"}, Doc: "a record that can't be decoded or evaluated: quarantine keeps it, counted, with the reason"},
	}
}

// later are options that are planned, and what to do until then.
func later() map[string]string {
	return map[string]string{
		"event_time": "group by an expression over the column, for example time_bucket(INTERVAL '1 minute', placed_at)",
		"lateness":   "late records are counted in their group whenever they come; leave it out",
		"idle":       "nothing waits for a partition; leave it out",
		"url":        "connector = 'kafka' is the only one so far",
		"view":       "connector = 'kafka' is the only one so far",
	}
}

// foreignOptions are options of other systems, and Weir's name for the same.
func foreignOptions() map[string]string {
	return map[string]string{
		"properties.bootstrap.servers": "brokers", "bootstrap.servers": "brokers", "kafka_broker": "brokers", "kafka.brokers": "brokers", "bootstrap_servers": "brokers",
		"kafka_topic": "topic", "kafka.topic": "topic", "value_format": "format", "value.format": "format", "key_format": "format",
		"scan.startup.mode": "start", "scan.startup.timestamp-millis": "start", "auto.offset.reset": "start", "offset": "start", "startup_mode": "start",
		"json.ignore-parse-errors": "on_error",
	}
}

// sourceOptions reads (name = 'value', ...) after WITH.
func (p *parser) sourceOptions() (Options, error) {
	open := p.tok.start
	o, err := p.options(sourceForm, p.knownOption)
	if err != nil {
		return nil, err
	}
	for _, d := range SourceOptions() {
		if _, ok := o[d.Name]; d.Required && !ok {
			example := "..."
			if len(d.Values) > 0 {
				example = d.Values[0]
			}
			return nil, p.errorAt(open, "option "+d.Name+" is missing: "+d.Doc, "add "+d.Name+" = '"+example+"'")
		}
	}
	return o, nil
}

// options reads (name = 'value', ...). known describes an option, or says what is
// wrong with its name, which begins at byte at.
func (p *parser) options(form string, known func(at int, name string) (OptionDoc, error)) (Options, error) {
	if err := p.expect("(", "the form is "+form); err != nil {
		return nil, err
	}
	o := Options{}
	for !p.tok.is(")") {
		if err := p.option(o, known); err != nil {
			return nil, err
		}
		more, err := p.accept(",")
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	return o, p.expect(")", "options are name = 'value', separated by commas")
}

func (p *parser) option(o Options, known func(at int, name string) (OptionDoc, error)) error {
	at := p.tok.start
	name, err := p.optionName()
	if err != nil {
		return err
	}
	doc, err := known(at, name)
	if err != nil {
		return err
	}
	if _, twice := o[name]; twice {
		return p.errorAt(at, "option "+name+" is set twice", "keep one")
	}
	if err := p.expect("=", "options are name = 'value'"); err != nil {
		return err
	}
	v := p.tok
	if v.kind != text || p.script[v.start] != '\'' {
		return p.unexpected("expected a string for option "+name, "write "+name+" = '...'")
	}
	if len(doc.Values) > 0 && !slices.Contains(doc.Values, v.value) {
		return p.errorAt(v.start, fmt.Sprintf("%s = '%s' is not supported", name, v.value), nearestValue(doc, v.value))
	}
	if doc.check != nil {
		if err := doc.check(v.value); err != nil {
			return p.errorAt(v.start, name+": "+err.Error(), doc.Doc)
		}
	}
	o[name] = v.value
	return p.advance()
}

func nearestValue(d OptionDoc, value string) string {
	if n := Nearest(value, d.Values); n != "" {
		return "did you mean '" + n + "'?"
	}
	if len(d.Values) == 1 {
		return "the only value so far is '" + d.Values[0] + "'"
	}
	return "use one of '" + strings.Join(d.Values, "', '") + "'"
}

// optionName reads a word; words joined by dots or quoted are read too, since
// they are other systems' and get an answer below.
func (p *parser) optionName() (string, error) {
	t := p.tok
	if t.kind == text || t.kind == quoted {
		return strings.ToLower(t.value), p.advance()
	}
	if t.kind != word {
		return "", p.unexpected("expected an option's name", "options are name = 'value', separated by commas")
	}
	name := t.value
	for {
		if err := p.advance(); err != nil {
			return "", err
		}
		if !p.tok.is(".") && !p.tok.is("-") && (p.tok.kind != word || p.tok.start != p.prev) {
			return strings.ToLower(name), nil
		}
		name += p.tok.value
	}
}

func (p *parser) knownOption(at int, name string) (OptionDoc, error) {
	var names []string
	for _, d := range SourceOptions() {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	if hint, ok := later()[name]; ok {
		return OptionDoc{}, p.errorAt(at, "option "+name+" is not supported yet", hint)
	}
	if ours, ok := foreignOptions()[name]; ok {
		return OptionDoc{}, p.errorAt(at, "option "+name+" is another system's", "Weir's name for it is "+ours)
	}
	if strings.HasPrefix(name, "export") {
		return OptionDoc{}, p.errorAt(at, "option "+name+" belongs to a view", "write it into CREATE MATERIALIZED VIEW")
	}
	if strings.HasPrefix(name, "retention") || strings.HasPrefix(name, "max_") || name == "on_full" {
		return OptionDoc{}, p.errorAt(at, "option "+name+" belongs to a view, where it is not supported yet", "leave it out")
	}
	hint := "options are " + strings.Join(names, ", ")
	if n := Nearest(name, names); n != "" {
		hint = "did you mean " + n + "?"
	}
	return OptionDoc{}, p.errorAt(at, "unknown option "+name, hint)
}

func checkBrokers(v string) error {
	for b := range strings.SplitSeq(v, ",") {
		host, port, ok := cutLast(strings.TrimSpace(b), ":")
		n, err := strconv.Atoi(port)
		if !ok || host == "" || err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%q is not host:port", b)
		}
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// checkTopic knows Kafka's rule for names.
func checkTopic(v string) error {
	if v == "" || v == "." || v == ".." || len(v) > 249 {
		return fmt.Errorf("%q is not a topic's name", v)
	}
	for i := range len(v) {
		if c := v[i]; !digit(c) && !letter(c) && c != '.' && c != '-' || c >= 0x80 {
			return fmt.Errorf("%q is not a topic's name: letters, digits, dot, _ and - only", v)
		}
	}
	return nil
}

func checkStart(v string) error {
	_, err := ParseStart(v)
	return err
}

// A Start is where a source begins when no position is stored.
type Start struct {
	Latest bool
	Time   time.Time // the first record at or after it; zero when not given
}

// ParseStart reads the option start: earliest, latest, or a timestamp, in UTC
// unless it carries an offset.
func ParseStart(v string) (Start, error) {
	switch v {
	case "earliest":
		return Start{}, nil
	case "latest":
		return Start{Latest: true}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, v, time.UTC); err == nil && t.UnixMilli() >= 0 {
			return Start{Time: t.UTC()}, nil
		}
	}
	return Start{}, fmt.Errorf("'%s' is neither earliest, latest nor a timestamp since 1970", v)
}
