package sqltype

import "github.com/apache/arrow-go/v18/arrow"

// Inside is the Arrow type in which values of t travel inside Weir: exactly
// what DuckDB writes with arrow_lossless_conversion. BOOLEAN is int8 (0 or 1),
// HUGEINT and UHUGEINT are 16 little-endian bytes, UUID is its 16 bytes in RFC
// order, INTERVAL is month_day_nano (planner and decoders refuse a time part of
// more than 292 years, which would wrap there). There are no dictionaries and
// no views. The extension name that tells int8 from BOOLEAN is on the field:
// see [Type.InsideField].
func (t Type) Inside() arrow.DataType {
	switch t.ID {
	case Boolean:
		return arrow.PrimitiveTypes.Int8
	case HugeInt, UHugeInt, UUID:
		return &arrow.FixedSizeBinaryType{ByteWidth: 16}
	case TimestampTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case Interval:
		return arrow.FixedWidthTypes.MonthDayNanoInterval
	}
	return t.arrow(Type.InsideField)
}

// InsideField is a nullable column of the inside form, with the extension
// metadata by which DuckDB knows the type again.
func (t Type) InsideField(name string) arrow.Field {
	f := arrow.Field{Name: name, Type: t.Inside(), Nullable: true}
	switch t.ID {
	case Boolean:
		f.Metadata = extension("arrow.bool8", "")
	case HugeInt:
		f.Metadata = extension("arrow.opaque", `{"type_name":"hugeint","vendor_name":"DuckDB"}`)
	case UHugeInt:
		f.Metadata = extension("arrow.opaque", `{"type_name":"uhugeint","vendor_name":"DuckDB"}`)
	case UUID:
		f.Metadata = extension("arrow.uuid", "")
	case JSON:
		f.Metadata = extension("arrow.json", "")
	}
	return f
}

// File is the Arrow type in which values of t stand in files and on HTTP: the
// subset that pyarrow, Polars, pandas, DuckDB, JavaScript and Java read with
// equal values. HUGEINT and UHUGEINT are decimal128(38,0), which ends at 38
// digits; INTERVAL is struct(months, days, micros).
func (t Type) File() arrow.DataType {
	switch t.ID {
	case Boolean:
		return arrow.FixedWidthTypes.Boolean
	case HugeInt, UHugeInt:
		return &arrow.Decimal128Type{Precision: 38, Scale: 0}
	case UUID:
		return &arrow.FixedSizeBinaryType{ByteWidth: 16}
	case TimestampTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case TimestampS:
		// Polars turns seconds into milliseconds; microseconds stay what they are.
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case TimestampMS:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case Interval:
		return arrow.StructOf(
			arrow.Field{Name: "months", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
			arrow.Field{Name: "days", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
			arrow.Field{Name: "micros", Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	return t.arrow(Type.FileField)
}

// FileField is a nullable column of the file form.
func (t Type) FileField(name string) arrow.Field {
	f := arrow.Field{Name: name, Type: t.File(), Nullable: true}
	if t.ID == UUID {
		f.Metadata = extension("arrow.uuid", "")
	}
	return f
}

func extension(name, meta string) arrow.Metadata {
	return arrow.NewMetadata([]string{"ARROW:extension:metadata", "ARROW:extension:name"}, []string{meta, name})
}

// arrow maps what both forms share; field gives the form of the parts.
func (t Type) arrow(field func(Type, string) arrow.Field) arrow.DataType {
	switch t.ID {
	case TinyInt:
		return arrow.PrimitiveTypes.Int8
	case SmallInt:
		return arrow.PrimitiveTypes.Int16
	case Integer:
		return arrow.PrimitiveTypes.Int32
	case BigInt:
		return arrow.PrimitiveTypes.Int64
	case UTinyInt:
		return arrow.PrimitiveTypes.Uint8
	case USmallInt:
		return arrow.PrimitiveTypes.Uint16
	case UInteger:
		return arrow.PrimitiveTypes.Uint32
	case UBigInt:
		return arrow.PrimitiveTypes.Uint64
	case Float:
		return arrow.PrimitiveTypes.Float32
	case Double:
		return arrow.PrimitiveTypes.Float64
	case Decimal:
		return &arrow.Decimal128Type{Precision: int32(t.Width), Scale: int32(t.Scale)}
	case Varchar, JSON:
		return arrow.BinaryTypes.String
	case Blob:
		return arrow.BinaryTypes.Binary
	case Date:
		return arrow.FixedWidthTypes.Date32
	case Time:
		return arrow.FixedWidthTypes.Time64us
	case TimestampS:
		return &arrow.TimestampType{Unit: arrow.Second}
	case TimestampMS:
		return &arrow.TimestampType{Unit: arrow.Millisecond}
	case Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case TimestampNS:
		return &arrow.TimestampType{Unit: arrow.Nanosecond}
	case List:
		return arrow.ListOfField(field(*t.Elem, "l"))
	case Array:
		return arrow.FixedSizeListOfField(int32(t.Size), field(*t.Elem, "l"))
	case Struct:
		fs := make([]arrow.Field, len(t.Fields))
		for i, f := range t.Fields {
			fs[i] = field(f.Type, f.Name)
		}
		return arrow.StructOf(fs...)
	case Map:
		k := field(t.Fields[0].Type, "key")
		k.Nullable = false
		return arrow.MapOfFields(k, field(t.Fields[1].Type, "value"))
	}
	panic("sqltype: no Arrow form of " + t.String())
}
