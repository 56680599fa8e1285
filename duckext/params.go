//go:build duckdb_arrow

package duckext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/duckdb/duckdb-go/v2/mapping"
)

var decodeMemory = memory.DefaultAllocator

// A paramError is a fault of the values that came with a statement.
type paramError struct{ message string }

func (e *paramError) Error() string { return e.message }

// params are a query's bound values by name; those of a list are "1", "2", ….
type params struct{ named map[string]any }

func readParams(raw json.RawMessage) (params, error) {
	p := params{named: map[string]any{}}
	if len(bytes.TrimSpace(raw)) == 0 {
		return p, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return p, &paramError{"params is not JSON: " + err.Error()}
	}
	switch v := v.(type) {
	case nil:
	case []any:
		for i, x := range v {
			p.named[strconv.Itoa(i+1)] = x
		}
	case map[string]any:
		for k, x := range v {
			name := strings.TrimPrefix(k, "$")
			if _, twice := p.named[name]; twice {
				return p, &paramError{fmt.Sprintf("parameter $%s is given twice, as %s and $%s", name, name, name)}
			}
			p.named[name] = x
		}
	default:
		return p, &paramError{"params is a list of values, or an object of named values"}
	}
	return p, nil
}

// bind gives a statement its values; each must have exactly one.
func (p params) bind(st *stmt) error {
	n := int(mapping.NParams(st.s))
	for i := range n {
		name := mapping.ParameterName(st.s, mapping.IdxT(i+1))
		v, ok := p.named[name]
		if !ok {
			return &paramError{fmt.Sprintf("parameter $%s has no value: %d were given", name, len(p.named))}
		}
		if err := bindValue(st, mapping.IdxT(i+1), v); err != nil {
			return &paramError{fmt.Sprintf("parameter $%s: %v", name, err)}
		}
	}
	if n < len(p.named) {
		return &paramError{fmt.Sprintf("%d values were given for %d parameters", len(p.named), n)}
	}
	return nil
}

func bindValue(st *stmt, i mapping.IdxT, v any) error {
	var state mapping.State
	switch v := v.(type) {
	case nil:
		state = mapping.BindNull(st.s, i)
	case bool:
		state = mapping.BindBoolean(st.s, i, v)
	case string:
		state = mapping.BindVarchar(st.s, i, v)
	case json.Number:
		return bindNumber(st, i, v)
	default:
		return fmt.Errorf("a list or an object cannot be bound: give it as a string and cast it")
	}
	return boundAs(state)
}

// bindNumber gives a number the value that DuckDB gives to the same text in SQL: a
// whole one is an integer, one with a point a DECIMAL of the digits that are written,
// one with an exponent a DOUBLE. Whole numbers are BIGINT, for what is added to a
// parameter may be larger than it. What SQL would round to a DOUBLE is refused.
func bindNumber(st *stmt, i mapping.IdxT, v json.Number) error {
	text := v.String()
	if len(text) > maxNumber {
		return fmt.Errorf("a number of %d characters cannot be bound: give it as a string and cast it", len(text))
	}
	if strings.ContainsAny(text, "eE") {
		f, err := v.Float64()
		if err != nil {
			return fmt.Errorf("%s is not a number that DuckDB has", v)
		}
		return boundAs(mapping.BindDouble(st.s, i, f))
	}
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, pointed := strings.Cut(digits, ".")
	width := len(whole) + len(fraction)
	n, ok := new(big.Int).SetString(strings.Replace(text, ".", "", 1), 10)
	switch {
	case !ok:
		return fmt.Errorf("%s is not a number that DuckDB has", v)
	case pointed && width > maxDecimal:
		return fmt.Errorf("%s has more than %d digits: give it as a string and cast it", v, maxDecimal)
	case pointed:
		return boundAs(mapping.BindDecimal(st.s, i, mapping.NewDecimal(uint8(width), uint8(len(fraction)), hugeInt(n))))
	case n.IsInt64():
		return boundAs(mapping.BindInt64(st.s, i, n.Int64()))
	case new(big.Int).Add(n, halfRange()).Sign() >= 0 && n.Cmp(halfRange()) < 0:
		return boundAs(mapping.BindHugeInt(st.s, i, hugeInt(n)))
	case n.Sign() > 0 && n.BitLen() <= 128:
		lower, upper := words(n)
		return boundAs(mapping.BindUHugeInt(st.s, i, mapping.NewUHugeInt(lower, upper)))
	}
	return fmt.Errorf("%s is beyond 128 bits: give it as a string and cast it", v)
}

// maxNumber is more characters than any number needs that keeps its digits.
const maxNumber = 1000

// maxDecimal is how many digits a DECIMAL has at most.
const maxDecimal = 38

// halfRange is 2^127: HUGEINT goes from its negative to just below it.
func halfRange() *big.Int { return new(big.Int).Lsh(big.NewInt(1), 127) }

// hugeInt is n, which fits.
func hugeInt(n *big.Int) mapping.HugeInt {
	lower, upper := words(n)
	return mapping.NewHugeInt(lower, int64(upper))
}

// words are the 128 bits of n in two's complement.
func words(n *big.Int) (lower, upper uint64) {
	m := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
	return m.Uint64(), m.And(m.Rsh(n, 64), new(big.Int).SetUint64(math.MaxUint64)).Uint64()
}

func boundAs(state mapping.State) error {
	if state == mapping.StateError {
		return errors.New("cannot be bound")
	}
	return nil
}

// integers are constants as BIGINT, or false if one does not fit.
func integers(vals []constant) (arrow.Array, bool, error) {
	b := array.NewInt64Builder(decodeMemory)
	for _, v := range vals {
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return nil, false, nil
		}
		b.Append(n)
	}
	return b.NewArray(), true, nil
}
