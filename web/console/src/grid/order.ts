// The order of values when a reader sorts a column: DuckDB's, with NULL last either way.

import { stringify, type Json } from '../api/json.ts'
import { kindOf } from './text.ts'

// sortRows returns the row numbers in order. Equal rows keep their order.
export function sortRows(rows: readonly Json[][], column: number, type: string, descending: boolean): Uint32Array {
  const number = kindOf(type) === 'number'
  const keys = rows.map((row) => sortKey(row[column] ?? null, number))
  const sign = descending ? -1 : 1
  return Uint32Array.from(rows.keys()).sort((a, b) => {
    const x = keys[a]!
    const y = keys[b]!
    if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1
    return compare(x, y) * sign || a - b
  })
}

type Key = null | string | number | bigint | Decimal
interface Decimal { units: bigint; scale: number }

function sortKey(v: Json, number: boolean): Key {
  if (v === null) return null
  if (typeof v === 'boolean') return Number(v)
  if (typeof v === 'object') return stringify(v)
  return typeof v === 'string' && number ? decimal(v) : v
}

// decimal reads what the server writes as a string in a numeric column: DECIMAL, HUGEINT, NaN, infinities.
function decimal(v: string): Key {
  const m = /^(-?\d+)(?:\.(\d+))?$/.exec(v)
  if (!m) return /^-inf/i.test(v) ? -Infinity : /^\+?inf/i.test(v) ? Infinity : NaN
  const fraction = m[2] ?? ''
  return { units: BigInt(m[1]! + fraction), scale: fraction.length }
}

function compare(x: Exclude<Key, null>, y: Exclude<Key, null>): number {
  if (isDecimal(x) && isDecimal(y)) {
    const scale = Math.max(x.scale, y.scale)
    return order(x.units * 10n ** BigInt(scale - x.scale), y.units * 10n ** BigInt(scale - y.scale))
  }
  return order(isDecimal(x) ? toNumber(x) : x, isDecimal(y) ? toNumber(y) : y)
}

// order puts NaN above everything, as DuckDB does.
function order<T extends string | number | bigint>(x: T, y: T): number {
  if (x !== x || y !== y) return Number(x !== x) - Number(y !== y)
  return x < y ? -1 : x > y ? 1 : 0
}

const isDecimal = (v: Exclude<Key, null>): v is Decimal => typeof v === 'object'
const toNumber = (d: Decimal) => Number(d.units) / 10 ** d.scale
