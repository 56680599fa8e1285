//go:build duckdb_arrow

package duckext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"weir/state/plan"
	"weir/state/sqltype"
)

// An Engine is one in-memory DuckDB instance, closed to files, network and
// extensions, with UTC as its time zone. It is safe for concurrent use; each
// call and each Program has a connection of its own.
type Engine struct {
	db     mapping.Database
	tables registry
}

// Version names the DuckDB that is linked: "duckdb v1.5.6".
func Version() string { return "duckdb " + mapping.LibraryVersion() }

// Open starts an instance.
func Open(o Options) (*Engine, error) {
	o = o.withDefaults()
	var config mapping.Config
	if mapping.CreateConfig(&config) == mapping.StateError {
		return nil, errors.New("duckdb: cannot create a configuration")
	}
	defer mapping.DestroyConfig(&config)
	for _, s := range [][2]string{
		{"threads", strconv.Itoa(o.Threads)},
		{"memory_limit", o.MemoryLimit},
		{"temp_directory", o.TempDir},
		{"max_temp_directory_size", "2GiB"},
		{"autoinstall_known_extensions", "false"},
		{"autoload_known_extensions", "false"},
		{"allow_community_extensions", "false"},
	} {
		if mapping.SetConfig(config, s[0], s[1]) == mapping.StateError {
			return nil, fmt.Errorf("duckdb: refused setting %s = %q", s[0], s[1])
		}
	}
	e := &Engine{}
	var msg string
	if mapping.OpenExt(":memory:", &e.db, config, &msg) == mapping.StateError {
		mapping.Close(&e.db)
		return nil, fmt.Errorf("open duckdb: %s", parseError(msg).message)
	}
	if err := e.setUp(); err != nil {
		mapping.Close(&e.db)
		return nil, fmt.Errorf("open duckdb: %w", err)
	}
	return e, nil
}

// setUp closes the instance. The order matters: nothing can be set once
// external access is off and the configuration is locked.
func (e *Engine) setUp() error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	defer c.close()
	for _, sql := range []string{
		"SET GLOBAL TimeZone = 'UTC'",
		"SET GLOBAL errors_as_json = true",
		"SET GLOBAL allow_persistent_secrets = false",
		"SET GLOBAL enable_external_access = false",
		"SET GLOBAL lock_configuration = true",
	} {
		if err := c.exec(sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return e.tables.register(c)
}

// Close ends the instance. Programs and sessions must be closed before.
func (e *Engine) Close() error {
	mapping.DestroyLogicalType(&e.tables.none)
	mapping.Close(&e.db)
	return nil
}

// Serialize implements plan.Engine.
func (e *Engine) Serialize(ctx context.Context, sql string) ([]byte, error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.serialize(ctx, sql)
}

// Deserialize implements plan.Engine.
func (e *Engine) Deserialize(ctx context.Context, tree []byte) (string, error) {
	c, err := e.connect()
	if err != nil {
		return "", err
	}
	defer c.close()
	sql, err := c.text(ctx, "SELECT json_deserialize_sql($1::JSON)", string(tree))
	if err != nil {
		return "", fmt.Errorf("turn a syntax tree into SQL: %w", syntax("", err))
	}
	return sql, nil
}

// Describe implements plan.Engine. The relations exist for this call only, as
// temporary views of a connection of their own.
func (e *Engine) Describe(ctx context.Context, rels []plan.Relation, sql string) ([]sqltype.Field, error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, r := range rels {
		if err := c.exec(emptyView(r)); err != nil {
			return nil, fmt.Errorf("declare relation %s: %w", r.Name, err)
		}
	}
	s, err := c.prepare(sql)
	if err != nil {
		return nil, syntax(sql, err)
	}
	defer s.close()
	if s.kind() != mapping.StatementTypeSelect {
		return nil, &plan.SyntaxError{Message: "only a SELECT has columns", Offset: -1}
	}
	cols, err := s.columns()
	if err != nil {
		return nil, err
	}
	return cols, ctx.Err()
}

func emptyView(r plan.Relation) string {
	var b strings.Builder
	b.WriteString("CREATE TEMP VIEW " + quote(r.Name) + " AS SELECT ")
	for i, f := range r.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("CAST(NULL AS " + typeSQL(f.Type) + ") AS " + quote(f.Name))
	}
	if len(r.Columns) == 0 {
		b.WriteString("1 AS __nothing")
	}
	b.WriteString(" WHERE false")
	return b.String()
}

// A conn is one connection. Only interrupt may be called while another call runs.
type conn struct {
	c  mapping.Connection
	mu sync.Mutex // guards closing against interrupting
}

func (e *Engine) connect() (*conn, error) {
	c := &conn{}
	if mapping.Connect(e.db, &c.c) == mapping.StateError {
		return nil, errors.New("duckdb: cannot connect")
	}
	return c, nil
}

func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	mapping.Disconnect(&c.c)
}

// exec runs one statement and drops its result.
func (c *conn) exec(sql string) error {
	var res mapping.Result
	defer mapping.DestroyResult(&res)
	if mapping.Query(c.c, sql, &res) == mapping.StateError {
		return parseError(mapping.ResultError(&res)).typed(int(mapping.ResultErrorType(&res)))
	}
	return nil
}

// serialize gives the syntax tree of sql, or a *plan.SyntaxError.
func (c *conn) serialize(ctx context.Context, sql string) ([]byte, error) {
	text, err := c.text(ctx, "SELECT json_serialize_sql($1::VARCHAR)", sql)
	if err != nil {
		return nil, syntax(sql, err)
	}
	return checkTree(sql, text)
}

// checkTree takes the error out of what json_serialize_sql answered for sql.
func checkTree(sql, text string) ([]byte, error) {
	tree := []byte(text)
	if !strings.HasPrefix(text, `{"error":true`) {
		return tree, nil
	}
	var head struct {
		Message  string `json:"error_message"`
		Subtype  string `json:"error_subtype"`
		Position string `json:"position"`
	}
	if err := json.Unmarshal(tree, &head); err != nil {
		return nil, fmt.Errorf("read the answer of json_serialize_sql: %w", err)
	}
	e := &plan.SyntaxError{Message: head.Message, Offset: -1}
	if n, err := strconv.Atoi(head.Position); err == nil {
		e.Offset = byteOffset(sql, n, head.Subtype)
	}
	return nil, e
}

// text runs a statement with one text parameter that returns one text.
func (c *conn) text(ctx context.Context, sql, arg string) (string, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return "", err
	}
	defer s.close()
	return s.text(ctx, arg)
}
