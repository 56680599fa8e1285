// What leaves the grid as text.

import type { Json } from '../api/json.ts'
import type { Column } from '../api/types.ts'
import type { Rectangle } from './selection.ts'
import { textOf } from './text.ts'

// tsv writes a rectangle of an answer the way spreadsheets paste it: fields with tabs, breaks or quotes are quoted,
// NULL is an empty field and the empty text a quoted one, so that the two stay apart.
export function tsv(columns: readonly Column[], row: (i: number) => readonly Json[], r: Rectangle, header: boolean): string {
  const lines: string[] = []
  const single = !header && r.top === r.bottom && r.left === r.right
  if (single) return textOf(row(r.top)[r.left], columns[r.left]!.type)
  const picked = columns.slice(r.left, r.right + 1)
  if (header) lines.push(picked.map((c) => quote(c.name)).join('\t'))
  for (let i = r.top; i <= r.bottom; i++) {
    const values = row(i)
    lines.push(picked.map((c, j) => field(values[r.left + j], c.type)).join('\t'))
  }
  return lines.join('\n')
}

function field(v: Json | undefined, type: string): string {
  return v === '' ? '""' : quote(textOf(v, type))
}

const quote = (s: string) => (/[\t\n\r"]/.test(s) ? '"' + s.replaceAll('"', '""') + '"' : s)

// spreadsheetSafe rewrites CSV so that no spreadsheet takes a value for a formula: a field that starts with = + - @, a
// tab or a carriage return, and is not a number, gets an apostrophe in front. Nothing else changes.
export function spreadsheetSafe(csv: string): string {
  const out: string[] = []
  let at = 0
  while (at < csv.length) {
    const quoted = csv[at] === '"'
    const start = quoted ? at + 1 : at
    const end = quoted ? closing(csv, start) : plainEnd(csv, at)
    const value = csv.slice(start, end)
    if (/^[=+\-@\t\r]/.test(value) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\r?$/i.test(value) && value !== '\r') {
      out.push(csv.slice(at, start), "'")
      at = start
    }
    const next = Math.min(csv.length, plainEnd(csv, end) + 1) // after the comma or the line break
    out.push(csv.slice(at, next))
    at = next
  }
  return out.join('')
}

function closing(csv: string, at: number): number {
  for (let i = csv.indexOf('"', at); i >= 0; i = csv.indexOf('"', i + 2)) {
    if (csv[i + 1] !== '"') return i
  }
  return csv.length
}

function plainEnd(csv: string, at: number): number {
  while (at < csv.length && csv[at] !== ',' && csv[at] !== '\n') at++
  return at
}
