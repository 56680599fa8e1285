//go:build duckdb_arrow

package appliance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"weir/state/sqltype"
)

// A datum is one value as SQL, as SQL of its canonical form, and as JSON.
type datum struct{ sql, canon, json string }

func null() datum { return datum{"NULL", "NULL", "null"} }

// A dataColumn is a column of the relation that generated views read.
type dataColumn struct {
	name, typ string
	value     func(r *rand.Rand) datum
}

func (c dataColumn) field() sqltype.Field {
	return sqltype.Field{Name: c.name, Type: sqltype.MustParse(c.typ)}
}

// same is a value whose JSON is a string and whose canonical form is itself.
func same(text string) datum {
	b, _ := json.Marshal(text)
	return datum{sqlText(text), sqlText(text), string(b)}
}

// numeral is a value whose text is one number in SQL and in JSON.
func numeral(text string) datum { return datum{sqlText(text), sqlText(text), text} }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// nullable gives NULL for one value of eight.
func nullable(f func(*rand.Rand) datum) func(*rand.Rand) datum {
	return func(r *rand.Rand) datum {
		if r.IntN(8) == 0 {
			return null()
		}
		return f(r)
	}
}

// keyFloat is a DOUBLE of which 0.0 and NaN have several forms.
func keyFloat(r *rand.Rand) datum {
	switch s := pick(r, "0.0", "-0.0", "NaN", "inf", "-inf", "1.5", "-1.5", "2", "0.1", "1e300"); s {
	case "-0.0":
		return datum{"'-0.0'", "'0.0'", "-0.0"}
	case "NaN", "inf", "-inf":
		return same(s)
	default:
		return numeral(s)
	}
}

// dataColumns are what the generated views read.
func dataColumns() []dataColumn {
	interval := func(r *rand.Rand) datum {
		s := pick(r, "30 days", "1 month", "720 hours", "1 day", "24 hours", "-1 month", "1 year 3 days", "00:00:00.000001", "12 months 72 hours")
		canon := map[string]string{
			"30 days": "1 month", "720 hours": "1 month", "24 hours": "1 day", "1 year 3 days": "12 months 3 days", "12 months 72 hours": "12 months 3 days",
		}
		d := same(s)
		if c, ok := canon[s]; ok {
			d.canon = sqlText(c)
		}
		return d
	}
	return []dataColumn{
		{"k", "VARCHAR", nullable(func(r *rand.Rand) datum {
			return same(pick(r, "", "a", "b", "ß", "日本", "a\"b", "x'y", "NULL", "e\u0301", "é"))
		})},
		{"city", "VARCHAR", nullable(func(r *rand.Rand) datum { return same(pick(r, "Paris", "PARIS", "Oslo", "oslo", "Zürich")) })},
		{"i", "INTEGER", nullable(func(r *rand.Rand) datum { return numeral(strconv.Itoa(r.IntN(41) - 20)) })},
		{"b", "BIGINT", nullable(func(r *rand.Rand) datum {
			return numeral(pick(r, "9007199254740993", "-9007199254740993", "9000000000000000000", "-9223372036854775808", "7", "0", "-1"))
		})},
		{"u", "UBIGINT", nullable(func(r *rand.Rand) datum { return numeral(pick(r, "18446744073709551615", "0", "1", "4294967296")) })},
		{"h", "HUGEINT", nullable(func(r *rand.Rand) datum {
			return numeral(pick(r, "999999999999999999999999999999", "-999999999999999999999999999999", "18446744073709551616", "3", "-2"))
		})},
		{"d", "DECIMAL(12,2)", nullable(func(r *rand.Rand) datum {
			n := r.IntN(400) - 200
			return numeral(fmt.Sprintf("%s%d.%02d", sign(n), abs(n)/100, abs(n)%100))
		})},
		{"w", "DECIMAL(30,10)", nullable(func(r *rand.Rand) datum {
			return numeral(pick(r, "12345678901234567890.0123456789", "-0.0000000001", "799.9294969890", "0.1", "-5"))
		})},
		{"f", "DOUBLE", nullable(func(r *rand.Rand) datum {
			switch r.IntN(30) {
			case 0:
				return same(pick(r, "NaN", "inf", "-inf"))
			case 1:
				return numeral("-0.0")
			}
			x := (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(12)-4))
			return numeral(strconv.FormatFloat(x, 'g', -1, 64))
		})},
		// Sums of quarters are exact in any order.
		{"q", "DOUBLE", nullable(func(r *rand.Rand) datum { return numeral(strconv.FormatFloat(float64(r.IntN(200)-100)/4, 'g', -1, 64)) })},
		{"fk", "DOUBLE", nullable(keyFloat)},
		{"r", "FLOAT", nullable(func(r *rand.Rand) datum { return numeral(pick(r, "0.5", "1.25", "-3", "0.1")) })},
		{"flag", "BOOLEAN", nullable(func(r *rand.Rand) datum { s := pick(r, "true", "false"); return datum{s, s, s} })},
		{"t", "TIMESTAMP", nullable(func(r *rand.Rand) datum {
			return same(pick(r, "1969-12-31 23:59:59.999", "1970-01-01 00:00:00", "2026-03-01 12:34:56.789012", "2026-03-01 12:36:00", "1900-02-28 01:02:03", "2026-03-02 00:00:00"))
		})},
		{"day", "DATE", nullable(func(r *rand.Rand) datum { return same(pick(r, "1969-12-31", "2000-02-29", "2026-03-01")) })},
		{"iv", "INTERVAL", nullable(interval)},
		{"tags", "VARCHAR[]", nullable(func(r *rand.Rand) datum {
			return pick(r,
				datum{"['x', NULL]", "['x', NULL]", `["x",null]`}, datum{"[]", "[]", "[]"}, datum{"['x']", "['x']", `["x"]`}, datum{"['ü', '']", "['ü', '']", `["ü",""]`})
		})},
		{"st", "STRUCT(a VARCHAR, x DOUBLE)", nullable(func(r *rand.Rand) datum {
			x := keyFloat(r)
			a := pick(r, null(), same("a"), same("ß"))
			of := func(a, x string) string { return "{'a': " + a + ", 'x': " + x + "::DOUBLE}" }
			return datum{of(a.sql, x.sql), of(a.canon, x.canon), `{"a":` + a.json + `,"x":` + x.json + `}`}
		})},
		{"uid", "UUID", nullable(func(r *rand.Rand) datum {
			return same(pick(r, "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-4fff-bfff-ffffffffffff", "7fffffff-0000-4000-8000-000000000000"))
		})},
		{"raw", "BLOB", nullable(func(r *rand.Rand) datum {
			b := pick(r, []byte{}, []byte{0}, []byte{0, 255}, []byte("abc"))
			s := "from_hex('" + fmt.Sprintf("%x", b) + "')"
			return datum{s, s, `"` + base64.StdEncoding.EncodeToString(b) + `"`}
		})},
	}
}

func sign(n int) string {
	if n < 0 {
		return "-"
	}
	return ""
}

func abs(n int) int { return max(n, -n) }

// How close a result column must be to the oracle's.
type closeness int

const (
	exact   closeness = iota
	oneUlp            // a mean over exact sums
	floated           // a sum of floats: as its bound says
)

// A viewColumn is what the generator knows of a result column.
type viewColumn struct {
	closeness closeness
	bound     string // for floated: SQL over the source, how far it may be
	key       bool   // it is a key as stored, so it must be canonical
	integral  bool
}

// A generated view is a SELECT and what its results promise.
type generated struct {
	sql     string
	columns []viewColumn
}

// oracle is the SELECT with the bounds of float sums behind its own columns.
func (g *generated) oracle() (sql string, bounds []int) {
	var extra strings.Builder
	for i, c := range g.columns {
		if c.closeness == floated {
			fmt.Fprintf(&extra, ", %s AS \"~%d\"", c.bound, i)
			bounds = append(bounds, i)
		}
	}
	head, tail, _ := strings.Cut(g.sql, " FROM src")
	return head + extra.String() + " FROM src" + tail, bounds
}

func keyExprs() []string {
	return []string{
		"k", "city", "i", "b", "u", "h", "d", "w", "fk", "r", "flag", "t", "day", "iv", "tags", "st", "uid", "raw", // raw columns
		"lower(city)", "upper(k)", "i % 5", "i // 3", "i & 3", "b % 1000", "d * 2", "i + 1e0", "length(k)", "st.a", "st.x",
		"date_trunc('hour', t)", "time_bucket(INTERVAL '5 minutes', t)", "year(day)", "CASE WHEN i > 0 THEN 'pos' WHEN i <= 0 THEN 'neg' END",
		"coalesce(k, '')", "k || 'ü'", "[fk]", "{'x': fk, 'iv': iv}.x", "{'n': i % 2, 'k': k}", "CAST(d AS INTEGER)", "i IS NULL", "tags[1]", "q // 10",
		"k IN ('a', 'b')", "CAST(b AS VARCHAR)", "src.k", "SRC.I % 4", `"city"`, "struct_extract(st, 'a')", "list_sort(tags)", "-fk", "fk * 2", "i BETWEEN -3 AND 1e1",
	}
}

// plainKeys is how many of keyExprs are columns.
const plainKeys = 18

func conditions() []string {
	return []string{
		"i > 0", "flag", "k IS NOT NULL", "k = 'a'", "f > 0", "d < 0.5", "b & 1 = 0", "NOT flag", "iv > INTERVAL '10 days'", "t < TIMESTAMP '1970-01-01'",
		"i > 1e0", "length(k) > 1", "len(tags) > 0", "st.x > 0", "q IS NOT NULL AND i IS NOT NULL", "city LIKE '%o%'", "fk = 0", "i > 100", "i % 2 = 1 OR flag IS NULL", "day >= DATE '2000-01-01'",
	}
}

type aggregate struct {
	sql string
	viewColumn
}

// generateAggregate makes a call of an aggregate, or an expression over some.
func generateAggregate(r *rand.Rand) aggregate {
	filter := ""
	if r.IntN(4) == 0 {
		filter = " FILTER (WHERE " + pick(r, conditions()...) + ")"
	}
	all := dataColumns()
	ints := []string{"i", "b", "i * 2", "i // 3", "i & 6", "length(k)", "abs(i)", "CASE WHEN flag THEN i END", "h", "u", "CAST(flag AS INTEGER)", "i % 7"}
	decs := []string{"d", "w", "d * 2", "d + 0.05", "CAST(i AS DECIMAL(10,2))", "-d", "CASE WHEN i > 1e0 THEN d ELSE 0.5 END"}
	quarters := []string{"q", "q * 2", "i * 1e0", "q + 1e3", "i / 4", "q * 0.5e0"}
	call := func(name, arg string) string { return name + "(" + arg + ")" + filter }
	switch n := r.IntN(20); n {
	case 0:
		return aggregate{"count(*)" + filter, viewColumn{integral: true}}
	case 1:
		return aggregate{call("count", pick(r, all...).name), viewColumn{integral: true}}
	case 2:
		return aggregate{call(pick(r, "count_if", "countif"), pick(r, conditions()...)), viewColumn{integral: true}}
	case 3, 4:
		return aggregate{call(pick(r, "sum", "SUM"), pick(r, ints...)), viewColumn{integral: true}}
	case 5:
		return aggregate{call("sum", pick(r, decs...)), viewColumn{}}
	case 6:
		return aggregate{call("sum", pick(r, quarters...)), viewColumn{}}
	case 7:
		return aggregate{call(pick(r, "avg", "mean"), pick(r, slicesConcat(ints, decs, quarters)...)), viewColumn{closeness: oneUlp}}
	case 8:
		return aggregate{call("sum", "f"), viewColumn{closeness: floated, bound: "count(f)" + filter + " * 2.3e-16 * sum(abs(f))" + filter}}
	case 9:
		return aggregate{call("avg", "f"), viewColumn{closeness: floated, bound: "2 * 2.3e-16 * sum(abs(f))" + filter}}
	case 10, 11, 12:
		return aggregate{call(pick(r, "min", "max"), pick(r, all...).name), viewColumn{}}
	case 13:
		return aggregate{call(pick(r, "min", "max"), pick(r, slicesConcat(ints, decs, quarters)...)), viewColumn{}}
	case 14:
		return aggregate{call(pick(r, "bool_and", "bool_or"), pick(r, conditions()...)), viewColumn{}}
	default:
		return aggregate{pick(r,
			"sum(i) // 2", "sum(i) & 7", "sum(b) % 1000", "sum(h) * 2", "-sum(i)", "coalesce(sum(i), 0) + count(*)", "sum(d) * 2", "sum(d) / 3", "sum(i) / count(*)",
			"max(i) - min(i)", "greatest(max(i), 0)", "concat('<', max(k), '>')", "CASE WHEN count(*) > 3 THEN 'many' END", "count(*) FILTER (WHERE flag) * 1e3",
			"sum(q) / count(q)", "{'n': count(*), 's': sum(i)}", "[min(i), max(i)]", "CAST(count(*) AS VARCHAR)", "bool_and(flag) AND count(*) > 1", "sum(b) // 2",
			"CAST(sum(i) AS DOUBLE) * 0.1e0", "max(t) - min(t)", "sum(i) IS NULL", "1e3 + count(i)", "sum(u) >> 1", "max(h) = min(h)", "nullif(count(i), 0)",
			"sum(i) BETWEEN -10 AND 1e1", "min(tags)[1]", "max(st).a", "sum(CASE WHEN flag THEN 1e0 ELSE 0 END) * 1e-1", "round(sum(d), 1)",
		), viewColumn{}}
	}
}

func slicesConcat(of ...[]string) []string {
	var all []string
	for _, s := range of {
		all = append(all, s...)
	}
	return all
}

// generateView makes one view over the relation src.
func generateView(r *rand.Rand) *generated {
	g := &generated{}
	var items, keys []string
	add := func(item string, c viewColumn) { items, g.columns = append(items, item), append(g.columns, c) }
	alias := func() string {
		return pick(r, "x%d", "X%d", `"Größe %d"`, `"n ""%d"`, "col_%d")
	}
	name := func() string { return " AS " + fmt.Sprintf(alias(), len(items)) }
	exprs := keyExprs()
	nkeys := pick(r, 0, 1, 1, 1, 2, 2, 3)
	mode := pick(r, "text", "text", "ordinal", "all", "alias", "shadow")
	seen := map[string]bool{}
	for range nkeys {
		e := exprs[r.IntN(len(exprs))]
		if r.IntN(3) == 0 {
			e = exprs[r.IntN(plainKeys)]
		}
		if seen[e] {
			continue
		}
		seen[e] = true
		switch mode {
		case "ordinal", "all":
			add(e+name(), viewColumn{key: true})
			keys = append(keys, strconv.Itoa(len(items)))
		case "alias":
			a := fmt.Sprintf("grp%d", len(items))
			add(e+" AS "+a, viewColumn{key: true})
			keys = append(keys, a)
		case "shadow": // the alias names a column, and GROUP BY means the column
			c := pick(r, "city", "i", "k", "d")
			if seen[c] {
				continue
			}
			seen[c] = true
			fn := map[string]string{"city": "lower(city)", "i": "i % 3", "k": "k || '!'", "d": "d + 1"}[c]
			add(fn+" AS "+c, viewColumn{})
			keys = append(keys, c)
		default:
			keys = append(keys, e)
			if r.IntN(5) > 0 {
				add(e+name(), viewColumn{key: true})
			}
			if r.IntN(4) == 0 {
				add(overKey(r, e)+name(), viewColumn{})
			}
		}
	}
	if r.IntN(10) == 0 {
		add(pick(r, "'const'", "1e3", "NULL::INTEGER", "0.10", "DATE '2026-01-01'")+name(), viewColumn{})
	}
	for range r.IntN(5) {
		a := generateAggregate(r)
		add(a.sql+name(), a.viewColumn)
	}
	if len(items) == 0 || len(keys) == 0 && len(items) < 2 { // a view has groups, or aggregates
		add("count(*)"+name(), viewColumn{integral: true})
	}
	var b strings.Builder
	b.WriteString("SELECT " + strings.Join(items, ", ") + " FROM src")
	if r.IntN(3) == 0 {
		b.WriteString(" WHERE " + pick(r, conditions()...))
	}
	switch {
	case len(keys) == 0:
	case mode == "all":
		b.WriteString(" GROUP BY ALL")
	default:
		b.WriteString(" GROUP BY " + strings.Join(keys, ", "))
	}
	switch n := r.IntN(12); {
	case n == 0 && len(keys) > 0 && mode != "all" && mode != "ordinal" && mode != "shadow":
		b.WriteString(" HAVING " + keys[r.IntN(len(keys))] + pick(r, " IS NOT NULL", " IS NULL"))
	case n < 3:
		b.WriteString(" HAVING " + pick(r, "count(*) > 2", "sum(i) > 0", "max(k) IS NOT NULL", "count(i) % 2 = 0", "min(d) < 0 OR count(*) = 1", "bool_or(flag)", "sum(b) // 2 > 5", "count(*) > 1e1"))
	}
	g.sql = b.String()
	return g
}

// overKey is an expression over a key that is not the key. None shows the sign of
// a zero or of a NaN: Weir shows the form that it keeps of a key, DuckDB the one
// that came first.
func overKey(r *rand.Rand, key string) string {
	switch key {
	case "fk":
		return pick(r, "1 / fk", "fk = 0.0", "isnan(fk)")
	case "-fk":
		return pick(r, "-fk IS NULL", "-fk = 0.0", "isnan(-fk)", "typeof(-fk)")
	}
	return pick(r, key+" IS NULL", "coalesce(CAST("+key+" AS VARCHAR), 'none')", "typeof("+key+")")
}
