// How a value is written: in a cell, and in what is copied.

import { stringify, type Json } from '../api/json.ts'

export type Kind = 'number' | 'text' | 'time' | 'boolean' | 'nested' | 'blob'

// kindOf sorts DuckDB's type names by how a column is aligned, ordered and drawn.
export function kindOf(type: string): Kind {
  const t = type.toUpperCase()
  if (t.endsWith(']') || /^(STRUCT|MAP|UNION)\b/.test(t)) return 'nested'
  if (/^(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL|NUMERIC)\b/.test(t)) return 'number'
  if (/^(DATE|TIME|TIMESTAMP)/.test(t)) return 'time'
  if (t === 'BOOLEAN') return 'boolean'
  return t === 'BLOB' ? 'blob' : 'text'
}

// textOf is the value as text, exact: what a copy holds. NULL is the empty text here.
export function textOf(v: Json | undefined, type: string): string {
  if (v === null || v === undefined) return ''
  if (typeof v === 'string') return v
  if (typeof v === 'number') {
    if (/^(DOUBLE|FLOAT)$/i.test(type) && Number.isInteger(v) && Math.abs(v) < 1e15) {
      return (Object.is(v, -0) ? '-0' : String(v)) + '.0'
    }
    return Object.is(v, -0) ? '-0' : String(v)
  }
  return typeof v === 'object' ? stringify(v) : String(v)
}

export interface Shown { text: string; look: '' | 'is-null' | 'is-empty' }

const limit = 500

// show is the value as a cell has it: one line, control characters made visible, cut after some hundred characters.
export function show(v: Json | undefined, type: string): Shown {
  if (v === null || v === undefined) return { text: 'NULL', look: 'is-null' }
  let text = textOf(v, type)
  if (text === '') return { text: "''", look: 'is-empty' }
  if (typeof v === 'string' && /^TIMESTAMP/i.test(type)) text = text.replace('T', ' ')
  if (text.length > limit) text = text.slice(0, limit) + '…'
  return { text: visible(text), look: '' }
}

const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

// visible replaces every character that has no shape of its own, or that turns the direction of a text, by an arrow
// or by its code point. `keep` names those that stay.
export function visible(text: string, keep = ''): string {
  return text.replace(hidden, (c) => {
    const n = c.charCodeAt(0)
    if (keep.includes(c)) return c
    if (c === '\t') return '⇥'
    if (c === '\n') return '⏎'
    return `⟨U+${n.toString(16).toUpperCase().padStart(4, '0')}⟩`
  })
}
