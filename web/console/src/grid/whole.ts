// What an answer lacks, in words.

import type { Whole } from '../api/types.ts'
import { count, plural } from '../ui/format.ts'
import { visible } from './text.ts'

const newest = 1000 // how many records of a source a query reads

// isCut reports whether there are more rows than the answer has.
export const isCut = (a: Whole) => a.rows_cut ?? (a.truncated === true && !a.partial)

// lacks names each thing that an answer of `rows` rows, if that is known, is not whole by.
export function lacks(a: Whole, rows?: number): string[] {
  const out: string[] = []
  if (a.partial) out.push(`Shows the newest ${count(newest)} records of ${a.partial.map((n) => visible(n)).join(', ')} only`)
  if (isCut(a)) out.push(rows === undefined ? 'Cut at the limit of rows' : `Cut at ${plural(rows, 'row')}`)
  return out
}
