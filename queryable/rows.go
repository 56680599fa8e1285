package queryable

import (
	"bytes"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"weir/state/sqltype"
)

// chunkSize is about how much of an answer is encoded before it is written.
const chunkSize = 64 << 10

// A source produces an answer's bytes. next appends the next part to dst and
// says io.EOF, with or without bytes, at the end.
type source interface {
	next(dst []byte) ([]byte, error)
}

// layout is a text form of rows: what stands around them and how one is written.
type layout interface {
	begin(dst []byte) []byte
	bind(batch arrow.RecordBatch) error
	row(dst []byte, i int, first bool) []byte
	end(dst []byte) []byte
}

// textSource writes rows in a text layout.
type textSource struct {
	rows    *Rows
	layout  layout
	batch   arrow.RecordBatch
	at      int
	begun   bool
	anyRows bool
}

func (s *textSource) next(dst []byte) ([]byte, error) {
	if !s.begun {
		s.begun = true
		dst = s.layout.begin(dst)
	}
	for stop := len(dst) + chunkSize; len(dst) < stop; {
		if s.batch == nil || s.at == int(s.batch.NumRows()) {
			if !s.rows.Records.Next() {
				if err := s.rows.Records.Err(); err != nil {
					return dst, err
				}
				return s.layout.end(dst), io.EOF
			}
			s.batch, s.at = s.rows.Records.RecordBatch(), 0
			if err := s.layout.bind(s.batch); err != nil {
				return dst, err
			}
			continue
		}
		dst = s.layout.row(dst, s.at, !s.anyRows)
		s.anyRows = true
		s.at++
	}
	return dst, nil
}

// bindCells gives an encoder for each column of a batch.
func bindCells(columns []Column, batch arrow.RecordBatch, one func(sqltype.Type, arrow.Array) (cell, error)) ([]cell, error) {
	if int(batch.NumCols()) != len(columns) {
		return nil, Errorf(Internal, "%d columns came where %d were announced", batch.NumCols(), len(columns))
	}
	cells := make([]cell, len(columns))
	for i, c := range columns {
		var err error
		if cells[i], err = one(c.Type, batch.Column(i)); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// jsonLayout is {"columns":[…],"rows":[[…],…],"epoch":…}, with "truncated":true
// when rows are missing, "rows_cut":true and "partial":[…] for why, "undecoded":n when records of sources could not be decoded,
// and "backfilling":[…] where views are not whole yet.
type jsonLayout struct {
	rows  *Rows
	form  Form
	cells []cell
}

func (l *jsonLayout) begin(dst []byte) []byte {
	dst = append(dst, `{"columns":[`...)
	for i, c := range l.rows.Columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = appendString(dst, c.Name)
		dst = append(dst, `,"type":`...)
		dst = appendString(dst, c.Type.String())
		dst = append(dst, '}')
	}
	return append(dst, `],"rows":[`...)
}

func (l *jsonLayout) bind(batch arrow.RecordBatch) (err error) {
	l.cells, err = bindCells(l.rows.Columns, batch, func(t sqltype.Type, a arrow.Array) (cell, error) { return jsonCell(t, a, l.form) })
	return err
}

func (l *jsonLayout) row(dst []byte, i int, first bool) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = append(dst, "\n["...)
	for n, c := range l.cells {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = c(dst, i)
	}
	return append(dst, ']')
}

func (l *jsonLayout) end(dst []byte) []byte {
	dst = append(dst, `],`...)
	dst = l.rows.appendTo(dst)
	if l.rows.truncated() {
		dst = append(dst, `,"truncated":true`...)
	}
	if l.rows.cut() {
		dst = append(dst, `,"rows_cut":true`...)
	}
	dst = appendNames(dst, "partial", l.rows.partial())
	if n := l.rows.undecoded(); n > 0 {
		dst = strconv.AppendInt(append(dst, `,"undecoded":`...), n, 10)
	}
	dst = appendNames(dst, "backfilling", l.rows.Backfilling)
	return append(dst, "}\n"...)
}

// appendTo appends "epoch":…, and "checkpoints":[…] when there are any.
func (a *Answer) appendTo(dst []byte) []byte {
	dst = append(dst, `"epoch":`...)
	dst = strconv.AppendUint(dst, a.Epoch, 10)
	if len(a.Past) == 0 {
		return dst
	}
	dst = append(dst, `,"checkpoints":[`...)
	for i, p := range a.Past {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(p.appendTo(append(dst, '{')), '}')
	}
	return append(dst, ']')
}

// appendTo appends the members of an object.
func (p *Past) appendTo(dst []byte) []byte {
	dst = append(dst, `"id":`...)
	dst = strconv.AppendUint(dst, p.ID, 10)
	dst = append(dst, `,"epoch":`...)
	dst = strconv.AppendUint(dst, p.Epoch, 10)
	if p.Savepoint != "" {
		dst = append(dst, `,"savepoint":`...)
		dst = appendString(dst, p.Savepoint)
	}
	return dst
}

func (r *Rows) undecoded() int64 {
	if r.Undecoded == nil {
		return 0
	}
	return r.Undecoded()
}

// truncated says that rows are missing, cut and partial say why.
func (r *Rows) truncated() bool { return r.cut() || len(r.partial()) > 0 }

func (r *Rows) cut() bool { return r.Truncated != nil && r.Truncated() }

func (r *Rows) partial() []string {
	if r.Partial == nil {
		return nil
	}
	return r.Partial()
}

// lineLayout is NDJSON: an object a line. Names that repeat get _1, _2 and so on.
type lineLayout struct {
	rows  *Rows
	form  Form
	names [][]byte
	cells []cell
}

func (l *lineLayout) begin(dst []byte) []byte {
	l.names = objectNames(l.rows.Columns)
	return dst
}

// objectNames gives the names of an object's members, as JSON with the colon.
func objectNames(columns []Column) [][]byte {
	seen := make(map[string]bool, len(columns))
	for _, c := range columns {
		seen[c.Name] = false
	}
	names := make([][]byte, len(columns))
	for i, c := range columns {
		name := c.Name
		for n := 1; seen[name]; n++ {
			if try := c.Name + "_" + strconv.Itoa(n); !has(seen, try) {
				name = try
			}
		}
		seen[name] = true
		names[i] = append(appendString(nil, name), ':')
	}
	return names
}

func has(m map[string]bool, k string) bool { _, ok := m[k]; return ok }

func (l *lineLayout) bind(batch arrow.RecordBatch) (err error) {
	l.cells, err = bindCells(l.rows.Columns, batch, func(t sqltype.Type, a arrow.Array) (cell, error) { return jsonCell(t, a, l.form) })
	return err
}

func (l *lineLayout) row(dst []byte, i int, _ bool) []byte {
	return append(appendObject(dst, l.names, l.cells, i), '\n')
}

func (l *lineLayout) end(dst []byte) []byte { return dst }

func appendObject(dst []byte, names [][]byte, cells []cell, i int) []byte {
	dst = append(dst, '{')
	for n, c := range cells {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, names[n]...)
		dst = c(dst, i)
	}
	return append(dst, '}')
}

// csvLayout is RFC 4180 with a header line and \n ends. NULL is nothing at all,
// the empty text is "".
type csvLayout struct {
	rows *Rows
	// guarded puts a ' before text that a spreadsheet would take for a formula.
	guarded bool
	cells   []cell
	buf     []byte
}

func (l *csvLayout) begin(dst []byte) []byte {
	for i, c := range l.rows.Columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = l.field(dst, []byte(c.Name))
	}
	return append(dst, '\n')
}

func (l *csvLayout) bind(batch arrow.RecordBatch) (err error) {
	l.cells, err = bindCells(l.rows.Columns, batch, func(t sqltype.Type, a arrow.Array) (cell, error) {
		text, err := plainText(t, a, Form{})
		if err != nil {
			return nil, err
		}
		a = plain(a)
		free := t.ID == sqltype.Varchar || t.ID == sqltype.JSON || t.Nested()
		return func(dst []byte, i int) []byte {
			if a.IsNull(i) {
				return dst
			}
			if !free { // no comma, quote or line end in it, and never empty
				return text(dst, i)
			}
			l.buf = text(l.buf[:0], i)
			return l.field(dst, l.buf)
		}, nil
	})
	return err
}

func (l *csvLayout) row(dst []byte, i int, _ bool) []byte {
	start := len(dst)
	for n, c := range l.cells {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = c(dst, i)
	}
	if len(l.cells) == 1 && len(dst) == start && l.single() {
		dst = append(dst, `""`...)
	}
	return append(dst, '\n')
}

// single is whether an empty line would be a row that readers skip. They do, so
// the NULL of a one-column answer is written as "" unless text can be empty.
func (l *csvLayout) single() bool {
	id := l.rows.Columns[0].Type.ID
	return id != sqltype.Varchar && id != sqltype.JSON
}

func (l *csvLayout) end(dst []byte) []byte { return dst }

func (l *csvLayout) field(dst, s []byte) []byte {
	guard := l.guarded && len(s) > 0 && bytes.IndexByte([]byte("=+-@\t\r"), s[0]) >= 0
	if !guard && len(s) > 0 && !bytes.ContainsAny(s, "\",\n\r") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	if guard {
		dst = append(dst, '\'')
	}
	for _, c := range s {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// FileForm turns a batch of columns in Inside form into File form. The caller
// releases what it returns; the batch stays the owner's.
type FileForm func(columns []sqltype.Field, batch arrow.RecordBatch) (arrow.RecordBatch, error)

// arrowSource writes one uncompressed Arrow IPC stream in File form.
type arrowSource struct {
	rows *Rows
	file FileForm
	out  bytes.Buffer
	w    *ipc.Writer
}

func (s *arrowSource) next(dst []byte) ([]byte, error) {
	fields := make([]sqltype.Field, len(s.rows.Columns))
	for i, c := range s.rows.Columns {
		fields[i] = c.Field
	}
	s.out.Reset()
	if s.w == nil {
		fs := make([]arrow.Field, len(fields))
		for i, f := range fields {
			fs[i] = f.Type.FileField(f.Name)
		}
		s.w = ipc.NewWriter(&s.out, ipc.WithSchema(arrow.NewSchema(fs, nil)))
	}
	if !s.rows.Records.Next() {
		if err := s.rows.Records.Err(); err != nil {
			return dst, err
		}
		if err := s.w.Close(); err != nil { // writes the schema too, if no batch did
			return dst, err
		}
		return append(dst, s.out.Bytes()...), io.EOF
	}
	batch, err := s.file(fields, s.rows.Records.RecordBatch())
	if err != nil && s.rows.Unfit != nil {
		err = s.rows.Unfit(s.rows.Records.RecordBatch(), err)
	}
	if err != nil {
		return dst, Errorf(BadRequest, "%w", err) // a value that File form can't hold
	}
	defer batch.Release()
	if err := s.w.Write(batch); err != nil {
		return dst, err
	}
	return append(dst, s.out.Bytes()...), nil
}
