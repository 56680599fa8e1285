// Command engine answers plan.Engine's questions with the real DuckDB, one JSON
// object a line on stdin and stdout. The tests of package plan run on recorded
// answers; `go test ./state/plan -record` builds this program and records anew.
// The tests themselves never link DuckDB.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

type relation struct {
	Name    string
	Columns []column
}

type column struct{ Name, Type string }

type request struct {
	Op, SQL   string
	Relations []relation
}

type answer struct {
	Text    string     `json:",omitempty"`
	Columns []column   `json:",omitempty"`
	Rows    [][]string `json:",omitempty"`
	Error   string     `json:",omitempty"`
	Offset  int        `json:",omitempty"` // plus one; 0 is unknown
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	c, err := duckdb.NewConnector("", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	conn, err := sql.OpenDB(c).Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET TimeZone = 'UTC'; SET threads = 1; SET errors_as_json = true"); err != nil {
		return err
	}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for d := json.NewDecoder(in); ; {
		var r request
		if err := d.Decode(&r); err != nil {
			return nil
		}
		if err := out.Encode(reply(ctx, conn, r)); err != nil {
			return err
		}
	}
}

func reply(ctx context.Context, conn *sql.Conn, r request) answer {
	switch r.Op {
	case "serialize":
		var s string
		if err := conn.QueryRowContext(ctx, "SELECT json_serialize_sql($1::VARCHAR)::VARCHAR", r.SQL).Scan(&s); err != nil {
			return failed(err)
		}
		return answer{Text: s}
	case "deserialize":
		var s string
		if err := conn.QueryRowContext(ctx, "SELECT json_deserialize_sql($1::JSON)", r.SQL).Scan(&s); err != nil {
			return failed(err)
		}
		return answer{Text: s}
	case "describe":
		return describe(ctx, conn, r)
	case "query":
		return query(ctx, conn, r.SQL)
	case "exec":
		if _, err := conn.ExecContext(ctx, r.SQL); err != nil {
			return failed(err)
		}
		return answer{}
	}
	return answer{Error: "unknown op " + r.Op}
}

func describe(ctx context.Context, conn *sql.Conn, r request) answer {
	for _, rel := range r.Relations {
		cols := make([]string, len(rel.Columns))
		for i, c := range rel.Columns {
			cols[i] = quote(c.Name) + " " + c.Type
		}
		name := quote(rel.Name)
		if _, err := conn.ExecContext(ctx, "CREATE OR REPLACE TEMP TABLE "+name+"("+strings.Join(cols, ", ")+")"); err != nil {
			return failed(err)
		}
		defer conn.ExecContext(ctx, "DROP TABLE temp."+name)
	}
	const prefix = "DESCRIBE "
	a := query(ctx, conn, prefix+r.SQL)
	if a.Error != "" {
		if a.Offset > len(prefix) {
			a.Offset -= len(prefix)
		} else {
			a.Offset = 0
		}
		return a
	}
	var cols []column
	for _, row := range a.Rows {
		cols = append(cols, column{row[0], row[1]})
	}
	return answer{Columns: cols}
}

func query(ctx context.Context, conn *sql.Conn, q string) answer {
	rows, err := conn.QueryContext(ctx, q)
	if err != nil {
		return failed(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return failed(err)
	}
	a := answer{}
	for rows.Next() {
		vals, ptrs := make([]any, len(names)), make([]any, len(names))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return failed(err)
		}
		row := make([]string, len(vals))
		for i, v := range vals {
			row[i] = fmt.Sprint(v)
		}
		a.Rows = append(a.Rows, row)
	}
	if err := rows.Err(); err != nil {
		return failed(err)
	}
	return a
}

var jsonTail = regexp.MustCompile(`(?s)\{.*\}`)

// failed reads DuckDB's error in its JSON form, which knows the position.
func failed(err error) answer {
	msg := err.Error()
	if e, ok := errors.AsType[*duckdb.Error](err); ok {
		msg = e.Msg
	}
	var j struct {
		Message  string `json:"exception_message"`
		Position string `json:"position"`
	}
	if s := jsonTail.FindString(msg); s != "" && json.Unmarshal([]byte(s), &j) == nil && j.Message != "" {
		a := answer{Error: j.Message}
		if n, err := strconv.Atoi(j.Position); err == nil {
			a.Offset = n + 1
		}
		return a
	}
	return answer{Error: msg}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
