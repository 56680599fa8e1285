// What EXPLAIN answers: text whose columns are set apart by spaces, shown whole and in a fixed width.

import type { Answer } from '../api/client.ts'
import type { Column } from '../api/types.ts'
import { kindOf, textOf, visible } from '../grid/text.ts'

// isPlan reports whether an answer is such a text.
export function isPlan(sql: string, columns: readonly Column[]): boolean {
  return /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*explain\b/i.test(sql) && columns.length > 0 && columns.every((c) => kindOf(c.type) === 'text')
}

// Plan shows the last column. One that stands before it names what follows.
export function Plan({ answer: { columns, rows } }: { answer: Answer }) {
  const last = columns.length - 1
  const text = (i: number, row: Answer['rows'][number]) => visible(textOf(row[i], columns[i]!.type), '\n\t')
  return (
    <div class="plan" tabIndex={0} role="group" aria-label="Plan">
      {last === 0
        ? <pre class="lines">{rows.map((r, n) => <span key={n}>{text(0, r)}{'\n'}</span>)}</pre>
        : rows.map((r, n) => <section key={n}><h3>{r.slice(0, last).map((_, i) => text(i, r)).join(' ')}</h3><pre>{text(last, r)}</pre></section>)}
    </div>
  )
}
