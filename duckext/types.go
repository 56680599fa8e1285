//go:build duckdb_arrow

package duckext

import (
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/sqltype"
)

var typeIDs = map[sqltype.ID]mapping.Type{
	sqltype.Boolean: mapping.TypeBoolean, sqltype.TinyInt: mapping.TypeTinyInt, sqltype.SmallInt: mapping.TypeSmallInt,
	sqltype.Integer: mapping.TypeInteger, sqltype.BigInt: mapping.TypeBigInt, sqltype.HugeInt: mapping.TypeHugeInt,
	sqltype.UTinyInt: mapping.TypeUTinyInt, sqltype.USmallInt: mapping.TypeUSmallInt, sqltype.UInteger: mapping.TypeUInteger,
	sqltype.UBigInt: mapping.TypeUBigInt, sqltype.UHugeInt: mapping.TypeUHugeInt, sqltype.Float: mapping.TypeFloat,
	sqltype.Double: mapping.TypeDouble, sqltype.Varchar: mapping.TypeVarchar, sqltype.JSON: mapping.TypeVarchar,
	sqltype.Blob: mapping.TypeBlob, sqltype.UUID: mapping.TypeUUID, sqltype.Date: mapping.TypeDate, sqltype.Time: mapping.TypeTime,
	sqltype.TimestampS: mapping.TypeTimestampS, sqltype.TimestampMS: mapping.TypeTimestampMS,
	sqltype.Timestamp: mapping.TypeTimestamp, sqltype.TimestampNS: mapping.TypeTimestampNS,
	sqltype.TimestampTZ: mapping.TypeTimestampTZ, sqltype.Interval: mapping.TypeInterval,
}

// logicalType makes DuckDB's type of t. The caller destroys it.
func logicalType(t sqltype.Type) mapping.LogicalType {
	switch t.ID {
	case sqltype.Decimal:
		return mapping.CreateDecimalType(t.Width, t.Scale)
	case sqltype.List, sqltype.Array:
		elem := logicalType(*t.Elem)
		defer mapping.DestroyLogicalType(&elem)
		if t.ID == sqltype.List {
			return mapping.CreateListType(elem)
		}
		return mapping.CreateArrayType(elem, mapping.IdxT(t.Size))
	case sqltype.Struct, sqltype.Map:
		types := make([]mapping.LogicalType, len(t.Fields))
		names := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			types[i], names[i] = logicalType(f.Type), f.Name
			defer mapping.DestroyLogicalType(&types[i])
		}
		if t.ID == sqltype.Map {
			return mapping.CreateMapType(types[0], types[1])
		}
		return mapping.CreateStructType(types, names)
	}
	lt := mapping.CreateLogicalType(typeIDs[t.ID])
	if t.ID == sqltype.JSON {
		mapping.LogicalTypeSetAlias(lt, "JSON")
	}
	return lt
}

// typeSQL spells t for a CAST.
func typeSQL(t sqltype.Type) string { return spelled(t, sqltype.Type.String) }

// spelled is t in SQL, with scalar types as scalar says. Names of struct fields are
// always quoted, since they may be keywords.
func spelled(t sqltype.Type, scalar func(sqltype.Type) string) string {
	switch t.ID {
	case sqltype.List:
		return spelled(*t.Elem, scalar) + "[]"
	case sqltype.Array:
		return fmt.Sprintf("%s[%d]", spelled(*t.Elem, scalar), t.Size)
	case sqltype.Map:
		return "MAP(" + spelled(t.Fields[0].Type, scalar) + ", " + spelled(t.Fields[1].Type, scalar) + ")"
	case sqltype.Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = quote(f.Name) + " " + spelled(f.Type, scalar)
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	}
	return scalar(t)
}

// typeText spells a type of DuckDB's, those that Weir refuses included.
func typeText(lt mapping.LogicalType) string {
	id := mapping.GetTypeId(lt)
	switch id {
	case mapping.TypeDecimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", mapping.DecimalWidth(lt), mapping.DecimalScale(lt))
	case mapping.TypeList:
		return childText(mapping.ListTypeChildType(lt)) + "[]"
	case mapping.TypeArray:
		return fmt.Sprintf("%s[%d]", childText(mapping.ArrayTypeChildType(lt)), mapping.ArrayTypeArraySize(lt))
	case mapping.TypeMap:
		return "MAP(" + childText(mapping.MapTypeKeyType(lt)) + ", " + childText(mapping.MapTypeValueType(lt)) + ")"
	case mapping.TypeStruct:
		return fieldsText("STRUCT", mapping.StructTypeChildCount(lt), lt, mapping.StructTypeChildName, mapping.StructTypeChildType)
	case mapping.TypeUnion:
		return fieldsText("UNION", mapping.UnionTypeMemberCount(lt), lt, mapping.UnionTypeMemberName, mapping.UnionTypeMemberType)
	case mapping.TypeVarchar:
		if strings.EqualFold(mapping.LogicalTypeGetAlias(lt), "JSON") {
			return "JSON"
		}
	case mapping.TypeTimestampTZ:
		return "TIMESTAMP WITH TIME ZONE"
	case mapping.TypeTimeTZ:
		return "TIME WITH TIME ZONE"
	case mapping.TypeSQLNull:
		return `"NULL"`
	}
	if s, ok := otherTypes[id]; ok {
		return s
	}
	for t, want := range typeIDs {
		if want == id && t != sqltype.JSON {
			return sqltype.Type{ID: t}.String()
		}
	}
	return fmt.Sprintf("TYPE_%d", id)
}

var otherTypes = map[mapping.Type]string{
	mapping.TypeEnum: "ENUM", mapping.TypeBit: "BIT", mapping.TypeBigNum: "BIGNUM", mapping.TypeTimeNS: "TIME_NS",
	mapping.TypeGeometry: "GEOMETRY", mapping.TypeVariant: "VARIANT",
}

func childText(lt mapping.LogicalType) string {
	defer mapping.DestroyLogicalType(&lt)
	return typeText(lt)
}

func fieldsText(word string, n mapping.IdxT, lt mapping.LogicalType,
	name func(mapping.LogicalType, mapping.IdxT) string, typ func(mapping.LogicalType, mapping.IdxT) mapping.LogicalType,
) string {
	parts := make([]string, n)
	for i := range n {
		parts[i] = quote(name(lt, i)) + " " + childText(typ(lt, i))
	}
	return word + "(" + strings.Join(parts, ", ") + ")"
}
