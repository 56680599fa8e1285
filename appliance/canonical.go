package appliance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/codec"
	"weir/state/plan"
	"weir/state/sqltype"
)

// canonical gives the columns that are keys of a view as expressions over a key
// see them: 0.0 for -0.0, 1 month for 30 days. Keys that are computed are left
// as they are, and so is a column that is read as something else than a key, too:
// WHERE, arguments and other keys see each record's own form.
func canonical(v *plan.View, cols []sqltype.Field, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	arrays := slices.Clone(rec.Columns())
	for n, k := range v.Keys {
		if codec.KeyExact(k.Type) || readElsewhere(v, n, k.Expr) {
			continue
		}
		e := strings.TrimPrefix(k.Expr, plan.InputRelation+".")
		i := slices.IndexFunc(cols, func(c sqltype.Field) bool {
			return strings.EqualFold(e, c.Name) || strings.EqualFold(e, quoteName(c.Name))
		})
		if i < 0 {
			continue
		}
		a, err := canonicalColumn(k.Type, arrays[i])
		if err != nil {
			return nil, fmt.Errorf("canonical form of key %s: %w", k.Name, err)
		}
		defer a.Release()
		arrays[i] = a
	}
	return array.NewRecordBatch(rec.Schema(), arrays, rec.NumRows()), nil
}

// readElsewhere says whether a view reads the column of its n-th key as something
// else, too: in another key, in an aggregate, or in WHERE. (The key's own
// expression in the partial statement may name it several times.)
func readElsewhere(v *plan.View, n int, column string) bool {
	names := regexp.MustCompile(regexp.QuoteMeta(column) + `(?:[^\pL\pN_]|$)`)
	for i, k := range v.Keys {
		if i != n && names.MatchString(k.Expr) {
			return true
		}
	}
	for _, a := range v.Accs {
		if names.MatchString(a.Partial) {
			return true
		}
	}
	_, where, _ := strings.Cut(v.Partial, " FROM "+plan.InputRelation+" WHERE ")
	return names.MatchString(where)
}

func canonicalColumn(t sqltype.Type, a arrow.Array) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, t.Inside())
	defer b.Release()
	decode := codec.NewKeyDecoder(t)
	var key []byte
	for i := range a.Len() {
		var err error
		if key, err = codec.AppendKey(key[:0], t, a, i); err != nil {
			return nil, err
		}
		if _, err := decode(b, key); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}
