package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The oracle reads documents with encoding/json, math/big and strconv, by the
// rules of the package comment, into the text that show prints.

var oracleColumns = []string{"i BIGINT", "t TINYINT", "u UBIGINT", "m DECIMAL(20,4)", "d DOUBLE", "b BOOLEAN", "s VARCHAR", "j JSON", "l INTEGER[]", "o STRUCT(x INTEGER, y VARCHAR)"}

type keyed struct {
	key string
	raw []byte
}

// object splits one object into its members, in order.
func object(raw []byte) (ms []keyed, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no object")
	}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		ms = append(ms, keyed{k.(string), v})
	}
	return ms, nil
}

// pick finds the value of a name by the rule for keys.
func pick(ms []keyed, name string) ([]byte, error) {
	var exact, folded [][]byte
	for _, m := range ms {
		switch {
		case m.key == name:
			exact = append(exact, m.raw)
		case len(m.key) == len(name) && strings.EqualFold(m.key, name):
			folded = append(folded, m.raw)
		}
	}
	switch {
	case len(exact) == 1:
		return exact[0], nil
	case len(exact) > 1, len(folded) > 1:
		return nil, errors.New("ambiguous")
	case len(folded) == 1:
		return folded[0], nil
	}
	return nil, nil
}

func depth(doc []byte) (most int) {
	n, in := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case in && c == '\\':
			i++
		case c == '"':
			in = !in
		case !in && (c == '{' || c == '['):
			n++
			most = max(most, n)
		case !in && (c == '}' || c == ']'):
			n--
		}
	}
	return most
}

// halves says whether the raw text has half a surrogate pair: encoding/json puts
// a replacement character for it.
func halves(raw []byte) bool {
	wrote := bytes.Count(raw, []byte("\uFFFD"))
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' {
			if len(raw) > i+5 && raw[i+1] == 'u' && strings.EqualFold(string(raw[i+2:i+6]), "fffd") {
				wrote++
			}
			i++
		}
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return true
	}
	return countReplaced(v) != wrote
}

func countReplaced(v any) (n int) {
	switch v := v.(type) {
	case string:
		return strings.Count(v, "\uFFFD")
	case []any:
		for _, e := range v {
			n += countReplaced(e)
		}
	case map[string]any:
		for k, e := range v {
			n += strings.Count(k, "\uFFFD") + countReplaced(e)
		}
	}
	return n
}

var errOracle = errors.New("refused")

// oracle answers the row of the document as text, or an error.
func oracle(doc []byte) (string, error) {
	if !json.Valid(doc) || !utf8.Valid(doc) || depth(doc) > maxDepth {
		return "", errOracle
	}
	ms, err := object(doc)
	if err != nil {
		return "", err
	}
	var row []string
	for _, f := range fields(oracleColumns...) {
		raw, err := pick(ms, f.Name)
		if err != nil {
			return "", err
		}
		s := "(null)"
		if f.Type.String() == "JSON" && raw != nil {
			if s = string(raw); halves(raw) {
				return "", errOracle
			}
		} else if raw != nil && string(raw) != "null" {
			if s, err = oracleValue(f.Type.String(), raw); err != nil {
				return "", err
			}
		}
		row = append(row, s)
	}
	return strings.Join(row, " | "), nil
}

func oracleValue(typ string, raw []byte) (string, error) {
	text := string(raw)
	isString := raw[0] == '"'
	if isString {
		if halves(raw) {
			return "", errOracle
		}
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", err
		}
	}
	switch typ {
	case "VARCHAR":
		return text, nil
	case "BOOLEAN":
		switch {
		case text == "true", isString && strings.EqualFold(text, "true") && len(text) == 4:
			return "1", nil
		case text == "false", isString && strings.EqualFold(text, "false") && len(text) == 5:
			return "0", nil
		}
		return "", errOracle
	case "INTEGER[]":
		var es []json.RawMessage
		if json.Unmarshal(raw, &es) != nil {
			return "", errOracle
		}
		out := make([]string, len(es))
		for i, e := range es {
			if out[i] = "null"; string(e) != "null" {
				var err error
				if out[i], err = oracleValue("INTEGER", e); err != nil {
					return "", err
				}
			}
		}
		return "[" + strings.Join(out, ",") + "]", nil
	case "STRUCT(x INTEGER, y VARCHAR)":
		ms, err := object(raw)
		if err != nil {
			return "", errOracle
		}
		out := `{"x":null,"y":null}`
		for name, typ := range map[string]string{"x": "INTEGER", "y": "VARCHAR"} {
			v, err := pick(ms, name)
			if err != nil {
				return "", err
			}
			if v == nil || string(v) == "null" {
				continue
			}
			s, err := oracleValue(typ, v)
			if err != nil {
				return "", err
			}
			if name == "y" {
				s = marshal(s)
			}
			out = strings.Replace(out, `"`+name+`":null`, `"`+name+`":`+s, 1)
		}
		return out, nil
	}
	if isString && !jsonNumber(text) {
		switch strings.ToLower(strings.TrimLeft(text, "+-")) {
		case "nan", "inf", "infinity":
			if f, err := strconv.ParseFloat(strings.TrimLeft(text, "+-"), 64); typ == "DOUBLE" && err == nil && len(text) <= len(strings.TrimLeft(text, "+-"))+1 {
				if text[0] == '-' {
					f = -f
				}
				return strconv.FormatFloat(f, 'g', -1, 64), nil
			}
		}
		return "", errOracle
	}
	if !jsonNumber(text) {
		return "", errOracle
	}
	if typ == "DOUBLE" {
		f, err := strconv.ParseFloat(text, 64)
		return strconv.FormatFloat(f, 'g', -1, 64), err
	}
	return oracleExact(typ, text)
}

func jsonNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0]-'0' <= 9) && s[len(s)-1]-'0' <= 9 && json.Valid([]byte(s))
}

func oracleExact(typ, text string) (string, error) {
	mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
	if strings.Trim(mantissa, "-0.") == "" {
		mantissa, exp = "0", ""
	}
	e, _ := strconv.ParseInt(exp, 10, 64) // at its limit when out of range
	switch {
	case e > 4000:
		return "", errOracle
	case e < -4000 && typ != "DECIMAL(20,4)":
		return "", errOracle
	case e < -4000:
		mantissa, e = "0", 0
	}
	r, _ := new(big.Rat).SetString(mantissa + "e" + strconv.FormatInt(e, 10))
	if typ == "DECIMAL(20,4)" {
		s := r.FloatString(4) // half away from zero
		if len(strings.TrimLeft(s, "-")) > 16+1+4 {
			return "", errOracle
		}
		if strings.Trim(s, "-0.") == "" {
			s = "0.0000"
		}
		return s, nil
	}
	lo, hi := "-9223372036854775808", "9223372036854775807"
	switch typ {
	case "TINYINT":
		lo, hi = "-128", "127"
	case "INTEGER":
		lo, hi = "-2147483648", "2147483647"
	case "UBIGINT":
		lo, hi = "0", "18446744073709551615"
	}
	low, _ := new(big.Rat).SetString(lo)
	high, _ := new(big.Rat).SetString(hi)
	if !r.IsInt() || r.Cmp(low) < 0 || r.Cmp(high) > 0 {
		return "", errOracle
	}
	return r.Num().String(), nil
}

// pair is a decoder that remembers shapes and one that starts from nothing at
// each document.
type pair struct{ learned, fresh *JSON }

func newPair(t testing.TB) pair {
	t.Helper()
	one := func() *JSON {
		d, err := NewJSON(fields(oracleColumns...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return pair{one(), one()}
}

// check compares both decoders and the oracle over one document.
func (p pair) check(t *testing.T, doc []byte) (accepted bool) {
	t.Helper()
	p.fresh.shape.init()
	got, ok := decodeOne(t, p.learned, string(doc))
	fresh, freshOK := decodeOne(t, p.fresh, string(doc))
	if got != fresh || ok != freshOK {
		t.Fatalf("%q: a decoder that knows the shape says %q, a fresh one %q", doc, got, fresh)
	}
	want, err := oracle(doc)
	if ok != (err == nil) || ok && got != want {
		t.Fatalf("%q:\ngot  %q\nwant %q, %v", doc, got, want, err)
	}
	return ok
}

func TestAgainstEncodingJSON(t *testing.T) {
	p := newPair(t)
	r := rand.New(rand.NewPCG(7, 9))
	g := docs{r}
	accepted := 0
	const n = 10000
	for range n {
		doc := g.document()
		if r.IntN(10) == 0 {
			doc = g.spoil(doc)
		}
		if p.check(t, doc) {
			accepted++
		}
	}
	if accepted < n/4 || accepted > n*9/10 {
		t.Errorf("%d of %d documents accepted: the generator is lopsided", accepted, n)
	}
}

// docs makes documents of few shapes and now and then of another.
type docs struct{ r *rand.Rand }

func (g docs) of(s ...string) string { return s[g.r.IntN(len(s))] }

func (g docs) document() []byte {
	var b bytes.Buffer
	space := func() {
		if g.r.IntN(40) == 0 {
			b.WriteString(g.of(" ", "\n", "\t ", "  "))
		}
	}
	space()
	b.WriteByte('{')
	for i, name := range []string{"i", "extra", "s", "m", "d", "t", "u", "b", "note", "j", "l", "o"} {
		if g.r.IntN(12) == 0 {
			continue
		}
		if g.r.IntN(60) == 0 {
			name = g.of("I", "S", "s", `\u0069`, "O", "ſ", "K", "", `\ud800`)
		}
		if i > 0 && b.Bytes()[b.Len()-1] != '{' {
			b.WriteByte(',')
			space()
		}
		b.WriteString(`"` + name + `"`)
		space()
		b.WriteByte(':')
		space()
		b.WriteString(g.value(name))
		space()
	}
	b.WriteByte('}')
	space()
	return b.Bytes()
}

func (g docs) value(name string) string {
	if g.r.IntN(20) == 0 {
		return g.of("null", `"x"`, "1", "true", "[]", "{}", "1.5", `"12"`, "[[1],{}]", `"\ud800"`, `"\ud83d\ude00\\"`)
	}
	n := strconv.Itoa(g.r.IntN(1 << g.r.IntN(30)))
	switch name {
	case "i", "u":
		return g.of(n, n, n, n, "1"+n+n, n+"e2", n+".0", n+"00e-2", `"`+n+`"`, "9223372036854775807", g.of("", "-")+"9223372036854775808", "18446744073709551615", "18446744073709551616")
	case "t":
		return g.of("", "", "-") + strconv.Itoa(g.r.IntN(132))
	case "m":
		frac := strconv.Itoa(g.r.IntN(1 << g.r.IntN(20)))
		return g.of("", "-") + n + g.of("", ".5", "."+frac, "."+frac, ".00005", ".00004999999999", "e-7", ".25e3", "000000000000", ".9999999999")
	case "d":
		return g.of("", "-") + n + g.of("", "."+n, "."+n+n, "e"+strconv.Itoa(g.r.IntN(330)), "e-"+strconv.Itoa(g.r.IntN(340)))
	case "b":
		return g.of("true", "false", "true", `"TRUE"`)
	case "l":
		return "[" + g.of("", "1", n+", "+n, n+","+n+",null", "1.0 ,\"2\"") + "]"
	case "o":
		return g.of("{}", `{"x":1}`, `{"y":"a b","x":`+n+`}`, `{"x":null,"y":{"z":1}}`, `{"X":1,"y":"\n"}`, `{"x":1,"z":[{}],"y":"`+strings.Repeat("é", g.r.IntN(9))+`"}`)
	}
	return `"` + g.of("", "a", "plain text", "Zürich", `q\"q`, `\u00e9`, "0123456789abcdef", strings.Repeat("x", g.r.IntN(30)), "日本語", `\\`) + `"`
}

// spoil changes some bytes.
func (g docs) spoil(doc []byte) []byte {
	for range 1 + g.r.IntN(2) {
		i := g.r.IntN(len(doc))
		switch g.r.IntN(4) {
		case 0:
			doc = append(doc[:i:i], doc[i+1:]...)
		case 1:
			doc[i] = byte(g.r.IntN(256))
		case 2:
			doc[i] = `{}[],:"\0e.- `[g.r.IntN(13)]
		default:
			doc = append(doc[:i:i], append([]byte(g.of(`"`, `\`, "{", "]", ",", "\xff", "0")), doc[i:]...)...)
		}
		if len(doc) == 0 {
			return []byte("{")
		}
	}
	return doc
}

func FuzzJSON(f *testing.F) {
	g := docs{rand.New(rand.NewPCG(1, 1))}
	for range 50 {
		f.Add(g.document())
	}
	for _, s := range []string{`{"i":1e99999}`, `{"m":0e-99999,"d":-0}`, `{"s":"\ud800\udc00"}`, `{"j":null}`, `{"i":1,"I":2}`, `{"l":[1,null]}`, `{"o":{"x":1}}`, "{\"s\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) == 0 {
			return
		}
		p := newPair(t)
		p.learned.Append([]byte(`{"i":1,"extra":2,"s":"x","m":1.5,"d":2,"t":1}`)) // a shape to know
		p.learned.Batch().Release()
		p.check(t, doc)
		p.check(t, doc)
		p.check(t, fmt.Appendf(nil, `{"s":"last","i":%d}`, len(doc)))
	})
}
