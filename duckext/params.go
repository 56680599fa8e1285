//go:build duckdb_arrow

package duckext

import (
	"bytes"
	"encoding/json"
	"fmt"
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
			p.named[strings.TrimPrefix(k, "$")] = x
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
		if n, err := v.Int64(); err == nil {
			state = mapping.BindInt64(st.s, i, n)
			break
		}
		f, err := v.Float64()
		if err != nil {
			return fmt.Errorf("%s is not a number that DuckDB has", v)
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return fmt.Errorf("%s is beyond 64 bits: give it as a string and cast it", v)
		}
		state = mapping.BindDouble(st.s, i, f)
	default:
		return fmt.Errorf("a list or an object cannot be bound: give it as a string and cast it")
	}
	if state == mapping.StateError {
		return fmt.Errorf("cannot be bound")
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
