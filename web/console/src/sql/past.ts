// The statements that read views as checkpoints hold them.

import type { Json } from '../api/json.ts'
import type { Checkpoint, Column } from '../api/types.ts'
import { kindOf, textOf } from '../grid/text.ts'

// A point in time: a checkpoint's number, or the present.
export type Point = number | 'live'

export const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

// pointOf is how a statement names a point: a savepoint by its name, since that says more.
function pointOf(p: Point, all: readonly Checkpoint[]): string {
  if (p === 'live') return literal(p)
  const name = all.find((c) => c.id === p)?.savepoint
  return name === undefined ? String(p) : literal(name)
}

export function diffSql(view: string, from: Point, to: Point, all: readonly Checkpoint[]): string {
  return `state_diff(${literal(view)}, ${pointOf(from, all)}, ${pointOf(to, all)})`
}

// historySql is a group's history. The key has a value for each key column in their order.
export function historySql(view: string, key: readonly { value: Json; type: string }[]): string {
  const values = key.map(({ value, type }) => (value === null ? 'NULL' : literal(textOf(value, type))))
  return `state_history(${[literal(view), ...values].join(', ')})`
}

// Change is one result in a row of a diff: where its columns stand. Without a delta the result is no number.
export interface Change { name: string; type: string; before: number; after: number; delta?: number }

// Shape says what the columns of a diff are. Column 0 is what changed, the last one the error.
export interface Shape { keys: number; changes: Change[] }

// shapeOf reads the columns: keys, then for each result before, after, and a delta when it is a number.
export function shapeOf(columns: readonly Column[], results: number): Shape {
  const changes: Change[] = []
  let at = columns.length - 1
  // From the end, because keys may have any name.
  for (let n = 0; n < results && at > 2; n++) {
    const delta = kindOf(columns[at - 3]?.type ?? '') === 'number' && columns[at - 3]!.type === columns[at - 2]!.type && columns[at - 1]!.name.startsWith(stem(columns[at - 3]!.name) + '_delta')
    const before = delta ? at - 3 : at - 2
    changes.unshift({ name: stem(columns[before]!.name), type: columns[before]!.type, before, after: before + 1, ...(delta && { delta: before + 2 }) })
    at = before
  }
  return { keys: at - 1, changes }
}

const stem = (name: string) => name.replace(/_before_*$/, '')
