// What differs between two answers of the same statement.

import { stringify, type Json } from '../api/json.ts'
import type { Column, ViewColumn } from '../api/types.ts'

export const enum Change { None = 0, Other = 1, Up = 2, Down = 3, New = 4 }

export interface Table { columns: readonly Column[]; rows: readonly Json[][] }

// changes maps the row numbers of `next` that differ to one Change per column. Rows are matched by their values in
// `keys`; without keys, or where a key is not unique, by their number.
export function changes(prev: Table, next: Table, keys: readonly number[]): Map<number, Uint8Array> {
  const out = new Map<number, Uint8Array>()
  if (!sameColumns(prev.columns, next.columns)) return out
  const width = next.columns.length
  const before = (keys.length > 0 && index(prev.rows, keys)) || undefined
  const keyed = before !== undefined && index(next.rows, keys) !== undefined
  next.rows.forEach((row, i) => {
    const old = keyed ? before.get(keyOf(row, keys)) : prev.rows[i]
    if (old === undefined) {
      out.set(i, new Uint8Array(width).fill(Change.New))
      return
    }
    let marks: Uint8Array | undefined
    for (let c = 0; c < width; c++) {
      const change = compare(old[c]!, row[c]!)
      if (change !== Change.None) (marks ??= new Uint8Array(width))[c] = change
    }
    if (marks) out.set(i, marks)
  })
  return out
}

// keyColumns finds the columns of an answer that identify its rows: those that are the whole key of one of the views
// that the statement names.
export function keyColumns(sql: string, columns: readonly Column[], views: readonly { name: string; columns: readonly ViewColumn[] }[]): number[] {
  const text = sql.toLowerCase()
  for (const view of views) {
    if (!text.includes(view.name.toLowerCase())) continue
    const keys = view.columns.filter((c) => c.role === 'key')
    const found = keys.map((k) => columns.findIndex((c) => c.name === k.name))
    if (keys.length > 0 && !found.includes(-1)) return found
  }
  return []
}

const sameColumns = (a: readonly Column[], b: readonly Column[]) =>
  a.length === b.length && a.every((c, i) => c.name === b[i]!.name && c.type === b[i]!.type)

const keyOf = (row: readonly Json[], keys: readonly number[]) => stringify(keys.map((k) => row[k] ?? null))

function index(rows: readonly Json[][], keys: readonly number[]): Map<string, Json[]> | undefined {
  const out = new Map<string, Json[]>()
  for (const row of rows) {
    const key = keyOf(row, keys)
    if (out.has(key)) return undefined
    out.set(key, row)
  }
  return out
}

function compare(a: Json, b: Json): Change {
  if (Object.is(a, b)) return Change.None
  const x = toNumber(a)
  const y = toNumber(b)
  if (x !== undefined && y !== undefined && x !== y) return x < y ? Change.Up : Change.Down
  if (typeof a === 'object' || typeof b === 'object') {
    return stringify(a) === stringify(b) ? Change.None : Change.Other
  }
  return a === b ? Change.None : Change.Other
}

function toNumber(v: Json): number | bigint | undefined {
  if (typeof v === 'number' || typeof v === 'bigint') return v
  if (typeof v === 'string' && /^-?\d+(\.\d+)?$/.test(v)) return Number(v)
  return undefined
}
