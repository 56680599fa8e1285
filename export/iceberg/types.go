package iceberg

import (
	"encoding/json"
	"fmt"
	"strings"

	"weir/state/sqltype"
)

// A field is a column, or a part of one.
type field struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Type     typ    `json:"type"`
}

// typ is a type of Iceberg. The zero Kind is a primitive, of which name is the
// spelling. A list has one part, "element", and a map "key" and "value".
type typ struct {
	name  string
	kind  string // "", struct, list or map
	parts []field
}

// typeOf is the type in which t stands in a table.
func typeOf(t sqltype.Type) (typ, error) {
	part := func(name string, t sqltype.Type) (field, error) {
		u, err := typeOf(t)
		return field{Name: name, Type: u}, err
	}
	nested := func(kind string, names []string, types ...sqltype.Type) (typ, error) {
		out := typ{kind: kind}
		for i, n := range names {
			f, err := part(n, types[i])
			if err != nil {
				return typ{}, err
			}
			f.Required = kind == "map" && i == 0
			out.parts = append(out.parts, f)
		}
		return out, nil
	}
	t = physical(t)
	switch t.ID {
	case sqltype.Boolean:
		return typ{name: "boolean"}, nil
	case sqltype.Integer:
		return typ{name: "int"}, nil
	case sqltype.BigInt:
		return typ{name: "long"}, nil
	case sqltype.Float:
		return typ{name: "float"}, nil
	case sqltype.Double:
		return typ{name: "double"}, nil
	case sqltype.Decimal:
		return typ{name: fmt.Sprintf("decimal(%d, %d)", t.Width, t.Scale)}, nil
	case sqltype.Varchar:
		return typ{name: "string"}, nil
	case sqltype.Blob:
		return typ{name: "binary"}, nil
	case sqltype.UUID:
		return typ{name: "uuid"}, nil
	case sqltype.Date:
		return typ{name: "date"}, nil
	case sqltype.Time:
		return typ{name: "time"}, nil
	case sqltype.Timestamp:
		return typ{name: "timestamp"}, nil
	case sqltype.TimestampTZ:
		return typ{name: "timestamptz"}, nil
	case sqltype.List, sqltype.Array:
		return nested("list", []string{"element"}, *t.Elem)
	case sqltype.Map:
		return nested("map", []string{"key", "value"}, t.Fields[0].Type, t.Fields[1].Type)
	case sqltype.Struct:
		var names []string
		var types []sqltype.Type
		for _, f := range t.Fields {
			names, types = append(names, f.Name), append(types, f.Type)
		}
		return nested("struct", names, types...)
	}
	return typ{}, fmt.Errorf("no type of Iceberg, version 2, is like %s: cast it to TIMESTAMP or VARCHAR in the view", t)
}

// physical is the SQL type whose file form the column of a table has, at the top
// level: Iceberg has no small and no unsigned integers.
func physical(t sqltype.Type) sqltype.Type {
	switch t.ID {
	case sqltype.TinyInt, sqltype.SmallInt, sqltype.UTinyInt, sqltype.USmallInt:
		return sqltype.Type{ID: sqltype.Integer}
	case sqltype.UInteger:
		return sqltype.Type{ID: sqltype.BigInt}
	case sqltype.UBigInt:
		return sqltype.Type{ID: sqltype.Decimal, Width: 20}
	case sqltype.HugeInt, sqltype.UHugeInt:
		return sqltype.Type{ID: sqltype.Decimal, Width: 38}
	case sqltype.JSON:
		return sqltype.Type{ID: sqltype.Varchar}
	case sqltype.TimestampS, sqltype.TimestampMS:
		return sqltype.Type{ID: sqltype.Timestamp}
	case sqltype.Interval:
		return sqltype.Type{ID: sqltype.Struct, Fields: []sqltype.Field{
			{Name: "months", Type: sqltype.Type{ID: sqltype.Integer}},
			{Name: "days", Type: sqltype.Type{ID: sqltype.Integer}},
			{Name: "micros", Type: sqltype.Type{ID: sqltype.BigInt}},
		}}
	}
	return t
}

// physicalDeep is physical at every depth.
func physicalDeep(t sqltype.Type) sqltype.Type {
	t = physical(t)
	if t.Elem != nil {
		e := physicalDeep(*t.Elem)
		t.Elem = &e
	}
	fields := make([]sqltype.Field, len(t.Fields))
	for i, f := range t.Fields {
		fields[i] = sqltype.Field{Name: f.Name, Type: physicalDeep(f.Type)}
	}
	if t.Fields != nil {
		t.Fields = fields
	}
	return t
}

// String spells a type without ids: equal texts are equal types.
func (t typ) String() string {
	if t.kind == "" {
		return t.name
	}
	var parts []string
	for _, p := range t.parts {
		parts = append(parts, fmt.Sprintf("%q: %s", p.Name, p.Type))
	}
	return t.kind + "<" + strings.Join(parts, ", ") + ">"
}

// number gives fresh ids, from *last+1, to the parts of a type.
func (t *typ) number(last *int) {
	for i := range t.parts {
		*last++
		t.parts[i].ID = *last
	}
	for i := range t.parts {
		t.parts[i].Type.number(last)
	}
}

// id finds the id of a part by the names that lead to it.
func id(fields []field, path []string) int32 {
	for _, f := range fields {
		if f.Name == path[0] {
			if len(path) == 1 {
				return int32(f.ID)
			}
			return id(f.Type.parts, path[1:])
		}
	}
	return -1
}

// MarshalJSON writes the type as the specification has it.
func (t typ) MarshalJSON() ([]byte, error) {
	switch t.kind {
	case "struct":
		return json.Marshal(map[string]any{"type": "struct", "fields": t.parts})
	case "list":
		e := t.parts[0]
		return json.Marshal(map[string]any{"type": "list", "element-id": e.ID, "element": e.Type, "element-required": e.Required})
	case "map":
		k, v := t.parts[0], t.parts[1]
		return json.Marshal(map[string]any{
			"type": "map", "key-id": k.ID, "key": k.Type, "value-id": v.ID, "value": v.Type, "value-required": v.Required,
		})
	}
	return json.Marshal(t.name)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *typ) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &t.name)
	}
	var n struct {
		Type          string
		Fields        []field
		ElementID     int  `json:"element-id"`
		KeyID         int  `json:"key-id"`
		ValueID       int  `json:"value-id"`
		ElementNeeded bool `json:"element-required"`
		ValueNeeded   bool `json:"value-required"`
		Element       typ
		Key           typ
		Value         typ
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	t.kind = n.Type
	switch n.Type {
	case "struct":
		t.parts = n.Fields
	case "list":
		t.parts = []field{{n.ElementID, "element", n.ElementNeeded, n.Element}}
	case "map":
		t.parts = []field{{n.KeyID, "key", true, n.Key}, {n.ValueID, "value", n.ValueNeeded, n.Value}}
	default:
		return fmt.Errorf("unknown type %q", n.Type)
	}
	return nil
}
