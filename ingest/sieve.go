package ingest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"weir/ingest/decode"
	"weir/state/plan"
	"weir/state/sqltype"
)

// A sieve finds the records of a batch that a view's statement refuses in one
// pass, where halving would take a run for each: DuckDB's TRY gives NULL for what
// fails. It decides nothing. What it finds is refused only after it was tried
// alone, and what it misses is found by halving.
type sieve struct {
	prog Program
	n    int // a column for each of programs.blames, then one for WHERE
}

// sieveSQL says for each record which keys and arguments of aggregates fail on it,
// if WHERE lets it through, and whether WHERE itself fails.
func sieveSQL(v *plan.View) (sql string, out []sqltype.Field) {
	fails := func(e string) string { return "TRY((" + e + ") IS NULL) IS NULL" }
	passes, where := "true", "false"
	if _, w, ok := strings.Cut(v.Partial, " FROM "+plan.InputRelation+" WHERE "); ok {
		w, _, _ = cutLast(w, " GROUP BY ")
		passes, where = "coalesce(TRY("+w+"), false)", fails(w)
	}
	var cols []string
	for _, k := range v.Keys {
		cols = append(cols, fails(k.Expr))
	}
	for _, a := range v.Accs {
		cols = append(cols, "false")
		for _, e := range rowExpressions(a.Partial) {
			cols[len(cols)-1] += " OR " + fails(e)
		}
	}
	for i := range cols {
		cols[i] = passes + " AND (" + cols[i] + ")"
	}
	cols = append(cols, where)
	for i := range cols {
		name := fmt.Sprintf("b%d", i)
		cols[i] += " AS " + name
		out = append(out, sqltype.Field{Name: name, Type: sqltype.Type{ID: sqltype.Boolean}})
	}
	return "SELECT " + strings.Join(cols, ", ") + " FROM " + plan.InputRelation, out
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

var aggregateCall = regexp.MustCompile(`\b(?:sum|count|min|max|bool_and|bool_or)\(`)

// rowExpressions takes the argument and the condition out of an accumulator's
// aggregate, as the planner writes it: sum(x) FILTER (WHERE y). It may find none.
func rowExpressions(aggregate string) (es []string) {
	at := aggregateCall.FindStringIndex(aggregate)
	rest := aggregate
	if at != nil {
		arg := inParens(aggregate[at[1]:])
		if arg != "" && arg != "*" {
			es = append(es, arg)
		}
		rest = aggregate[at[1]+len(arg):]
	}
	if _, cond, ok := strings.Cut(rest, " FILTER (WHERE "); ok {
		es = append(es, inParens(cond))
	}
	return slices.DeleteFunc(es, func(e string) bool { return e == "" })
}

// inParens is the text up to the parenthesis that closes, "" if none does.
func inParens(s string) string {
	depth := 1
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return s[:i]
			}
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], c) // a doubled one opens again
			if end < 0 {
				return ""
			}
			i += end + 1
		}
	}
	return ""
}

// sieve gives the programs' sieve, or nil when DuckDB takes no such statement.
func (p *programs) sieveOf(ctx context.Context) *sieve {
	if !p.sieved {
		p.sieved = true
		sql, out := sieveSQL(p.plan)
		rel := plan.Relation{Name: plan.InputRelation, Columns: p.plan.Inputs}
		if prog, err := p.eval.Prepare(ctx, sql, rel, out); err == nil {
			p.sieve = &sieve{prog, len(out)}
		}
	}
	return p.sieve
}

// flags are the columns of a sieve's answer.
type flags []*array.Int8

func (f flags) set(column, row int) bool {
	return f[column].IsValid(row) && f[column].Value(row) != 0
}

// run asks about a batch; no flags where it cannot tell.
func (s *sieve) run(ctx context.Context, in arrow.RecordBatch) (flags, func(), error) {
	none := func() {}
	out, err := s.prog.Run(ctx, in)
	if _, bad := errors.AsType[*EvalError](err); bad {
		return nil, none, nil
	}
	if err != nil {
		return nil, none, err
	}
	if out.NumRows() != in.NumRows() || int(out.NumCols()) != s.n {
		out.Release()
		return nil, none, nil
	}
	var f flags
	for _, c := range out.Columns() {
		b, ok := c.(*array.Int8)
		if !ok {
			out.Release()
			return nil, none, nil
		}
		f = append(f, b)
	}
	return f, out.Release, nil
}

// sift refuses the records that the sieve finds and gives the others, which are
// the caller's to release.
func (r *run) sift(ctx context.Context, s *sieve, in arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	in.Retain()
	f, release, err := s.run(ctx, in)
	defer release()
	if err != nil || f == nil {
		return in, err
	}
	drop := map[int]*decode.Error{}
	for i := range int(in.NumRows()) {
		suspect := slices.ContainsFunc(f, func(c *array.Int8) bool { return c.IsValid(i) && c.Value(i) != 0 })
		if !suspect {
			continue
		}
		found, err := r.with.accuse(ctx, in, int64(i), f)
		if err != nil {
			return in, err
		}
		if found == nil { // WHERE, or a mistake
			if found, err = r.alone(ctx, in, int64(i)); err != nil {
				return in, err
			}
		}
		if found != nil {
			drop[i] = nil
			r.refuse(int64(i), *found)
		}
	}
	if len(drop) == 0 {
		return in, nil
	}
	var index []int
	rest, err := without(in, drop, &index, mem)
	if err != nil {
		return in, err
	}
	for i := range index {
		index[i] = r.row(int64(index[i]))
	}
	r.index = index
	in.Release()
	return rest, nil
}

// accuse tries a record alone with the first program that the sieve names, in the
// order in which blame would come to it. nil is that it did not refuse the record.
func (p *programs) accuse(ctx context.Context, in arrow.RecordBatch, row int64, f flags) (*fault, error) {
	if p.blames == nil {
		if err := p.prepareBlames(ctx); err != nil {
			return nil, err
		}
	}
	if f.set(len(p.blames), int(row)) {
		return nil, nil
	}
	one := in.NewSlice(row, row+1)
	defer one.Release()
	for i := range p.blames {
		at := (p.blamed + i) % len(p.blames)
		if !f.set(at, int(row)) {
			continue
		}
		b := p.blames[at]
		out, err := b.prog.Run(ctx, one)
		if err == nil {
			out.Release()
			return nil, nil
		}
		if _, ok := errors.AsType[*EvalError](err); !ok {
			return nil, err
		}
		p.blamed = at
		return &fault{b.column, err.Error()}, nil
	}
	return nil, nil
}

// alone runs the whole statement over one record; nil is that it passes.
func (r *run) alone(ctx context.Context, in arrow.RecordBatch, row int64) (*fault, error) {
	one := in.NewSlice(row, row+1)
	defer one.Release()
	out, err := r.with.partial.Run(ctx, one)
	if err == nil {
		out.Release()
		return nil, nil
	}
	if _, ok := errors.AsType[*EvalError](err); !ok {
		return nil, err
	}
	f, err := r.with.blame(ctx, in, row, err)
	return &f, err
}
