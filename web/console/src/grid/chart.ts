// Which chart an answer can be, and its numbers. The key names the points, or else the first column that is a time or a
// text and not the same in all rows. Every column of numbers beside it is a series; times make a line, texts make bars.

import type { Json } from '../api/json.ts'
import type { Column } from '../api/types.ts'
import { kindOf, show } from './text.ts'

export interface Series { name: string; values: (number | null)[] }
// measures are the columns that can be drawn; bars draw one of them, lines the first four.
export interface Chart { kind: 'line' | 'bars'; label: string; labels: string[]; series: Series[]; measures: { name: string; column: number }[]; left: number }

const maxBars = 40
const maxPoints = 2000
const maxSeries = 4

// keysOf finds the columns that name the rows of an answer: the key of the view that it is of, or the key of the groups
// whose difference between two states it is.
export function keysOf(columns: readonly Column[], known: readonly number[]): number[] {
  if (known.length > 0) return [...known]
  const before = columns.findIndex((c) => c.name.endsWith('_before'))
  return columns[0]?.name === 'change' && before > 0 ? columns.map((_, i) => i).slice(1, before) : []
}

// chartOf returns undefined when there is nothing to draw. The measure is the column that bars draw, the keys are those
// of keysOf. Neither a key nor what is called an id is a measure.
export function chartOf(columns: readonly Column[], rows: readonly Json[][], measure?: number, keys: readonly number[] = []): Chart | undefined {
  const kinds = columns.map((c) => kindOf(c.type))
  const all = columns.map((_, i) => i)
  const ids = all.filter((i) => /(^|_)id$/i.test(columns[i]!.name))
  const numbers = all.filter((i) => kinds[i] === 'number' && !keys.includes(i) && !ids.includes(i))
  const plain = all.filter((i) => kinds[i] === 'time' || kinds[i] === 'text' || kinds[i] === 'boolean')
  const differs = (i: number) => rows.some((r) => r[i] !== rows[0]![i])
  const naming = keys.length > 0 ? keys : [...plain, ...ids]
  let label = naming.find(differs) ?? naming[0] ?? -1
  const named = keys.length > 0 ? keys.filter((k) => k === label || differs(k)) : [label]
  const counted = label < 0 && numbers.length > 1 // the first of several numbers names the points
  if (counted) label = named[0] = numbers.shift()!
  if (numbers.length === 0 || rows.length === 0) return undefined
  const delta = columns[0]!.name === 'change' ? numbers.find((i) => columns[i]!.name.endsWith('_delta')) : undefined
  const drawn = numbers.includes(measure!) ? measure! : (delta ?? numbers[0]!)
  const line = named.length === 1 && (kinds[label] === 'time' || counted) && rows.length > 1
  const sorted = line ? [...rows].sort((a, b) => compare(a[label]!, b[label]!)) : rows
  const cut = sorted.slice(0, line ? maxPoints : maxBars)
  return {
    kind: line ? 'line' : 'bars',
    label: label < 0 ? 'row' : named.map((i) => columns[i]!.name).join(', '),
    labels: brief(cut.map((r, i) => (label < 0 ? String(i + 1) : named.map((n) => show(r[n], columns[n]!.type).text).join(' · '))), kinds[label] === 'time' && named.length === 1),
    measures: numbers.map((column) => ({ name: columns[column]!.name, column })),
    series: (line ? numbers.slice(0, maxSeries) : [drawn]).map((i) => ({ name: columns[i]!.name, values: cut.map((r) => numeric(r[i])) })),
    left: sorted.length - cut.length,
  }
}

// brief leaves out the day when all points have the same, and seconds that are all zero.
function brief(labels: string[], time: boolean): string[] {
  if (!time) return labels
  const day = /^\d{4}-\d\d-\d\d /.exec(labels[0] ?? '')?.[0] ?? ''
  const whole = labels.every((l) => /\d\d:\d\d:00(\.0+)?$/.test(l))
  const same = day !== '' && labels.every((l) => l.startsWith(day))
  return labels.map((l) => (whole ? l.replace(/:00(\.0+)?$/, '') : l).slice(same ? day.length : 0))
}

// ticks are round values from 0 or below up to the largest, five or so.
export function ticks(min: number, max: number): number[] {
  if (!(max > min)) max = min + 1
  const rough = (max - min) / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].find((s) => s * power >= rough)! * power
  const out: number[] = []
  for (let i = Math.floor(min / step); i <= Math.ceil(max / step - 1e-9); i++) out.push(i * step)
  return out
}

function numeric(v: Json | undefined): number | null {
  if (v === null || v === undefined || typeof v === 'object' || typeof v === 'boolean') return null
  const n = Number(v)
  return Number.isFinite(n) ? n : null
}

function compare(a: Json, b: Json): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return a < b ? -1 : a > b ? 1 : 0
}
