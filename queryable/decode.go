package queryable

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/state/sqltype"
)

// AppendValue appends a value that a client names as a key, JSON or a bare text,
// with the strictness of look-ups. Nested values are JSON.
func AppendValue(b array.Builder, t sqltype.Type, text string, isJSON bool) error {
	if isJSON || t.Nested() {
		if notText([]byte(text)) >= 0 {
			return errors.New("it is not UTF-8, or holds half a surrogate pair")
		}
		return appendJSON(b, t, json.RawMessage(text))
	}
	return appendText(b, t, text)
}

// appendJSON appends a JSON value to the builder of a column of type t in
// Inside form. It reads what the encoder writes, a number also from a string;
// a value that t cannot hold exactly is an error, never rounded.
func appendJSON(b array.Builder, t sqltype.Type, raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return errors.New("a value is missing")
	}
	if string(raw) == "null" {
		b.AppendNull()
		return nil
	}
	if t.Nested() {
		return appendNested(b, t, raw)
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		return appendText(b, t, s)
	case c == '{' || c == '[':
		return fmt.Errorf("%s is wanted, not %s", t, kind(c))
	case c == 't' || c == 'f':
		if t.ID != sqltype.Boolean {
			return fmt.Errorf("%s is wanted, not a boolean", t)
		}
	default:
		if !t.Numeric() {
			return fmt.Errorf("%s is wanted, not a number", t)
		}
	}
	return appendText(b, t, string(raw))
}

func kind(c byte) string {
	if c == '{' {
		return "an object"
	}
	return "an array"
}

// appendText appends a value from its text: what the encoder writes into CSV,
// and nested values as JSON.
func appendText(b array.Builder, t sqltype.Type, s string) error {
	err := appendScalar(b, t, s)
	if n, ok := errors.AsType[*strconv.NumError](err); ok {
		err = n.Err
	}
	if err != nil {
		return fmt.Errorf("%q is no %s: %w", s, t, err)
	}
	return nil
}

var (
	errBuilder = errors.New("the column's Arrow form is another")
	errForm    = errors.New("it is written differently")
	errRange   = errors.New("it is out of range")
	errInexact = errors.New("the nearest value is another number")
)

func appendScalar(b array.Builder, t sqltype.Type, s string) error {
	switch b := b.(type) {
	case *array.Int8Builder:
		if t.ID == sqltype.Boolean {
			v, err := parseBool(s)
			if v {
				b.Append(1)
			} else if err == nil {
				b.Append(0)
			}
			return err
		}
		v, err := strconv.ParseInt(s, 10, 8)
		return appended(b.Append, int8(v), err)
	case *array.BooleanBuilder:
		v, err := parseBool(s)
		return appended(b.Append, v, err)
	case *array.Int16Builder:
		v, err := strconv.ParseInt(s, 10, 16)
		return appended(b.Append, int16(v), err)
	case *array.Int32Builder:
		v, err := strconv.ParseInt(s, 10, 32)
		return appended(b.Append, int32(v), err)
	case *array.Int64Builder:
		v, err := strconv.ParseInt(s, 10, 64)
		return appended(b.Append, v, err)
	case *array.Uint8Builder:
		v, err := strconv.ParseUint(s, 10, 8)
		return appended(b.Append, uint8(v), err)
	case *array.Uint16Builder:
		v, err := strconv.ParseUint(s, 10, 16)
		return appended(b.Append, uint16(v), err)
	case *array.Uint32Builder:
		v, err := strconv.ParseUint(s, 10, 32)
		return appended(b.Append, uint32(v), err)
	case *array.Uint64Builder:
		v, err := strconv.ParseUint(s, 10, 64)
		return appended(b.Append, v, err)
	case *array.Float32Builder:
		v, err := parseFloat(s, 32)
		return appended(b.Append, float32(v), err)
	case *array.Float64Builder:
		v, err := parseFloat(s, 64)
		return appended(b.Append, v, err)
	case *array.Decimal128Builder:
		v, err := parseDecimal(s, int(t.Width), int(t.Scale))
		return appended(b.Append, v, err)
	case *array.StringBuilder:
		b.Append(s)
		return nil
	case *array.BinaryBuilder:
		v, err := base64.StdEncoding.DecodeString(s)
		return appended(b.Append, v, err)
	case *array.FixedSizeBinaryBuilder:
		v, err := parseFixed(t, s)
		return appended(b.Append, v, err)
	}
	return appendTemporal(b, t, s)
}

func appended[T any](add func(T), v T, err error) error {
	if err == nil {
		add(v)
	}
	return err
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errForm
}

// maxFloatDigits is more than any float has: 767 name the longest exactly.
const maxFloatDigits = 800

// parseFloat reads a number that names a float: rounded to as many digits as s has,
// the float's value is s. So 0.1 is read, and so are the 17 digits that other programs
// write of it, but no 16777217 as a FLOAT, which would be another number.
func parseFloat(s string, bits int) (float64, error) {
	if strings.ContainsAny(s, "xX_") { // Go's own spellings
		return 0, errForm
	}
	v, err := strconv.ParseFloat(s, bits)
	if err != nil || !finite(v) {
		return v, err
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(strings.TrimLeft(s, "+-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(strings.TrimLeft(whole+fraction, "0"), "0")
	if digits == "" { // a zero
		return v, nil
	}
	if len(digits) > maxFloatDigits {
		return 0, errInexact
	}
	own, _, _ := strings.Cut(strconv.FormatFloat(math.Abs(v), 'e', len(digits)-1, bits), "e")
	if strings.Replace(own, ".", "", 1) != digits {
		return 0, errInexact
	}
	return v, nil
}

// parseDecimal reads a decimal number of at most width digits, scale of them
// behind the point. An exponent is allowed, rounding is not.
func parseDecimal(s string, width, scale int) (decimal128.Num, error) {
	mantissa, exponent, found := strings.Cut(strings.ToLower(s), "e")
	exp := 0
	if found {
		var err error
		if exp, err = strconv.Atoi(exponent); err != nil {
			return decimal128.Num{}, errForm
		}
	}
	digits := strings.TrimLeft(mantissa, "+-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(mantissa)-len(digits) > 1 || whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return decimal128.Num{}, errForm
	}
	// value = digits × 10^shift in units of the last place
	text := strings.TrimLeft(whole+fraction, "0")
	if text == "" {
		return decimal128.Num{}, nil
	}
	if exp < -1000 || exp > 1000 || len(text) > 1000 {
		return decimal128.Num{}, errRange
	}
	shift := exp - len(fraction) + scale
	for ; shift < 0; shift++ {
		cut, ok := strings.CutSuffix(text, "0")
		if !ok {
			return decimal128.Num{}, fmt.Errorf("it has more than %d digits behind the point", scale)
		}
		text = cut
	}
	if len(text)+shift > width {
		return decimal128.Num{}, errRange
	}
	n, _ := new(big.Int).SetString(text+strings.Repeat("0", shift), 10)
	if strings.HasPrefix(mantissa, "-") {
		n.Neg(n)
	}
	return decimal128.FromBigInt(n), nil
}

// parseFixed reads the 16 bytes of a UUID, a HUGEINT or a UHUGEINT.
func parseFixed(t sqltype.Type, s string) ([]byte, error) {
	if t.ID == sqltype.UUID {
		hexed := strings.ReplaceAll(strings.Trim(s, "{}"), "-", "")
		b, err := hex.DecodeString(hexed)
		if err != nil || len(b) != 16 {
			return nil, errForm
		}
		return b, nil
	}
	if strings.ContainsRune(s, '_') {
		return nil, errForm
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, errForm
	}
	signed := t.ID == sqltype.HugeInt
	switch limit := 128; {
	case signed && n.Sign() < 0:
		if new(big.Int).Not(n).BitLen() > limit-1 {
			return nil, errRange
		}
		n.Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
	case n.Sign() < 0 || signed && n.BitLen() > limit-1 || n.BitLen() > limit:
		return nil, errRange
	}
	var be [16]byte
	n.FillBytes(be[:])
	out := make([]byte, 16)
	binary.LittleEndian.PutUint64(out, binary.BigEndian.Uint64(be[8:]))
	binary.LittleEndian.PutUint64(out[8:], binary.BigEndian.Uint64(be[:8]))
	return out, nil
}

func appendTemporal(b array.Builder, t sqltype.Type, s string) error {
	switch b := b.(type) {
	case *array.Date32Builder:
		v, err := parseDate(s)
		return appended(b.Append, arrow.Date32(v), err)
	case *array.Time64Builder:
		v, err := parseClock(s, 1_000_000)
		if err == nil && v > microsPerDay {
			err = errRange
		}
		return appended(b.Append, arrow.Time64(v), err)
	case *array.TimestampBuilder:
		unit := perSecond(b.Type().(*arrow.TimestampType).Unit)
		v, err := parseTimestamp(s, unit, t.ID == sqltype.TimestampTZ)
		return appended(b.Append, arrow.Timestamp(v), err)
	case *array.MonthDayNanoIntervalBuilder:
		v, err := parseInterval(s)
		return appended(b.Append, v, err)
	}
	return errBuilder
}

// appendNested reads an array or an object into a LIST, ARRAY, STRUCT or MAP.
func appendNested(b array.Builder, t sqltype.Type, raw json.RawMessage) error {
	switch b := b.(type) {
	case *array.ListBuilder:
		items, err := elements(t, raw)
		if err != nil {
			return err
		}
		b.Append(true)
		return appendAll(b.ValueBuilder(), *t.Elem, items)
	case *array.FixedSizeListBuilder:
		items, err := elements(t, raw)
		if err != nil {
			return err
		}
		if len(items) != t.Size {
			return fmt.Errorf("%s has %d elements, not %d", t, t.Size, len(items))
		}
		b.Append(true)
		return appendAll(b.ValueBuilder(), *t.Elem, items)
	case *array.StructBuilder:
		fields, err := byName(raw)
		if err != nil {
			return fmt.Errorf("%s is wanted as an object: %w", t, err)
		}
		b.Append(true)
		for i, f := range t.Fields {
			v, ok := fields[f.Name]
			if !ok {
				return fmt.Errorf("field %q of %s is missing", f.Name, t)
			}
			if err := appendJSON(b.FieldBuilder(i), f.Type, v); err != nil {
				return fmt.Errorf("field %q: %w", f.Name, err)
			}
			delete(fields, f.Name)
		}
		for name := range fields {
			return fmt.Errorf("%s has no field %q", t, name)
		}
		return nil
	case *array.MapBuilder:
		return appendMap(b, t, raw)
	}
	return errBuilder
}

func elements(t sqltype.Type, raw json.RawMessage) (items []json.RawMessage, err error) {
	if json.Unmarshal(raw, &items) != nil {
		return nil, fmt.Errorf("%s is wanted as an array", t)
	}
	return items, nil
}

func appendAll(b array.Builder, t sqltype.Type, items []json.RawMessage) error {
	for i, item := range items {
		if err := appendJSON(b, t, item); err != nil {
			return fmt.Errorf("element %d: %w", i+1, err)
		}
	}
	return nil
}

// appendMap reads an object. The order of its names is kept, since a MAP has one.
func appendMap(b *array.MapBuilder, t sqltype.Type, raw json.RawMessage) error {
	all, err := members(raw)
	if err != nil {
		return fmt.Errorf("%s is wanted as an object: %w", t, err)
	}
	if err := eachOnce(t.Fields[0].Type, all); err != nil {
		return err
	}
	b.Append(true)
	for _, m := range all {
		if err := AppendValue(b.KeyBuilder(), t.Fields[0].Type, m.name, false); err != nil {
			return err
		}
		if err := appendJSON(b.ItemBuilder(), t.Fields[1].Type, m.value); err != nil {
			return fmt.Errorf("value of %q: %w", m.name, err)
		}
	}
	return nil
}

// eachOnce refuses names that are one key of a MAP in two spellings, as 1 and 01.
func eachOnce(t sqltype.Type, all []member) error {
	b := array.NewBuilder(memory.DefaultAllocator, t.Inside())
	defer b.Release()
	for _, m := range all {
		if err := AppendValue(b, t, m.name, false); err != nil {
			return err
		}
	}
	keys := b.NewArray()
	defer keys.Release()
	seen := make(map[string]bool, len(all))
	for i, m := range all {
		text := keys.ValueStr(i)
		if seen[text] {
			return fmt.Errorf("the key %s is given twice", clip(m.name))
		}
		seen[text] = true
	}
	return nil
}

// parseInterval reads DuckDB's own spelling: 1 year 2 days -03:04:05.6.
func parseInterval(s string) (arrow.MonthDayNanoInterval, error) {
	var v arrow.MonthDayNanoInterval
	words := strings.Fields(s)
	if len(words) == 0 {
		return v, errForm
	}
	var months, days, micros int64
	for i := 0; i < len(words); i++ {
		if strings.ContainsRune(words[i], ':') {
			clock, negative := strings.CutPrefix(words[i], "-")
			n, err := parseClock(clock, 1_000_000)
			if err != nil || i != len(words)-1 {
				return v, errForm
			}
			micros = n
			if negative {
				micros = -n
			}
			break
		}
		n, err := strconv.ParseInt(words[i], 10, 32)
		if err != nil || i+1 == len(words) {
			return v, errForm
		}
		i++
		switch strings.TrimSuffix(strings.ToLower(words[i]), "s") {
		case "year":
			months += 12 * n
		case "month", "mon":
			months += n
		case "day":
			days += n
		default:
			return v, errForm
		}
	}
	if months != int64(int32(months)) || days != int64(int32(days)) || micros > math.MaxInt64/1000 || micros < -math.MaxInt64/1000 {
		return v, errRange
	}
	return arrow.MonthDayNanoInterval{Months: int32(months), Days: int32(days), Nanoseconds: micros * 1000}, nil
}
