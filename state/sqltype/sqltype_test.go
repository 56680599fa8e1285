package sqltype

import (
	"errors"
	"testing"
)

func TestParsePrintsAsDuckDB(t *testing.T) {
	for in, want := range map[string]string{
		"bigint": "BIGINT", "INT": "INTEGER", "text": "VARCHAR", "varchar(10)": "VARCHAR", "double precision": "DOUBLE",
		"decimal": "DECIMAL(18,3)", "NUMERIC(12, 2)": "DECIMAL(12,2)", "decimal(5)": "DECIMAL(5,0)",
		"timestamptz": "TIMESTAMP WITH TIME ZONE", "timestamp with  time zone": "TIMESTAMP WITH TIME ZONE",
		"int[][3]": "INTEGER[][3]", "struct(a int, \"B c\" varchar[])": `STRUCT(a INTEGER, "B c" VARCHAR[])`,
		"map(varchar, struct(x hugeint))": "MAP(VARCHAR, STRUCT(x HUGEINT))", " uuid ": "UUID", "json": "JSON",
		`struct("a""b" int)`: `STRUCT("a""b" INTEGER)`,
	} {
		typ, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := typ.String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if again := MustParse(typ.String()); !again.Equal(typ) {
			t.Errorf("%s: %s reads back as %s", in, typ, again)
		}
		typ.Inside()
		typ.File()
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{"", "decimal(39,2)", "decimal(3,4)", "int[", "int[0]", "struct()", "struct(a)", "map(int)", "int int", "varchar(", "decimal(99999999999999999999)"} {
		if typ, err := Parse(in); err == nil {
			t.Errorf("%q: read as %s", in, typ)
		}
	}
	for _, in := range []string{"TIMETZ", "time with time zone", "BIT", "enum", "VARIANT", "int4x", "UNION(a int)", "struct(a bignum)"} {
		_, err := Parse(in)
		if _, ok := errors.AsType[*UnsupportedError](err); !ok {
			t.Errorf("%q: %v", in, err)
		}
	}
}
