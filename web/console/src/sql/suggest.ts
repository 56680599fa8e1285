// What to offer at a cursor, from the text of the statement and the live catalogue. It knows no editor.

import type { ViewColumn } from '../api/types.ts'
import { skipToken, split } from './split.ts'
import { clauses, functions, phrases, tableFunctions } from './words.ts'

export interface Relation { name: string; kind: 'materialized' | 'view' | 'source'; columns: readonly ViewColumn[] }

export interface Suggestion {
  label: string
  kind: 'column' | 'relation' | 'function' | 'keyword'
  detail: string
  info?: string
  insert: string
  weight: number // higher is nearer
}

export interface Suggestions { from: number; options: Suggestion[] }

interface Token { text: string; from: number; to: number; word: boolean }

// suggest returns undefined inside strings and comments, and where nothing fits.
export function suggest(text: string, cursor: number, catalog: readonly Relation[]): Suggestions | undefined {
  const prefix = /[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*$/.exec(text.slice(0, cursor))?.[0] ?? ''
  const from = cursor - prefix.length
  const all = split(text)
  const start = all.findLast((s) => s.end > s.to && s.end <= from)?.end ?? 0
  const stop = all.find((s) => s.end > start)?.to ?? cursor
  if (inside(text, start, from)) return undefined
  const tokens = scan(text, start, Math.max(cursor, stop))

  const before = tokens.filter((t) => t.to <= from)
  const last = before.at(-1)
  const known = relations(tokens, catalog)
  if (last?.text === '.' && last.to === from) {
    const name = unquote(before.at(-2)?.text ?? '')
    const found = known.find((r) => r.alias === name.toLowerCase())?.relation ?? find(catalog, name)
    return found ? { from, options: columns(found, 5) } : undefined
  }
  if (!last) return { from, options: phrases.map((p) => keyword(p, 3)) }
  if (wantsRelation(before)) {
    return { from, options: [...catalog.map((r) => relation(r, 5)), ...tableFunctions.map((f) => func(f, 1))] }
  }
  const options = known.length > 0
    ? known.flatMap((k) => (k.relation ? columns(k.relation, 5) : []))
    : catalog.flatMap((r) => columns(r, 2))
  options.push(...functions.map((f) => func(f, f.aggregate ? 1 : 0)))
  options.push(...clauses.map((c) => keyword(c, 1)))
  options.push(...catalog.map((r) => relation(r, 0)))
  return { from, options: unique(options) }
}

// quoteName writes an identifier as SQL needs it.
export function quoteName(name: string): string {
  return /^[a-z_][a-z0-9_]*$/i.test(name) && !reserved.has(name.toLowerCase()) ? name : '"' + name.replaceAll('"', '""') + '"'
}

const reserved = new Set(`all analyse analyze and any array as asc asymmetric both case cast check collate column constraint
create default deferrable desc describe distinct do else end except false fetch for foreign from group having in initially
intersect into lambda lateral leading limit not null offset on only or order pivot placing primary qualify references
returning select show some summarize symmetric table then to trailing true union unique unpivot using variadic when where
window with`.split(/\s+/))

function scan(text: string, from: number, to: number): Token[] {
  const out: Token[] = []
  const word = /[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*/y
  for (let at = from; at < to;) {
    word.lastIndex = at
    const m = word.exec(text)
    const next = m ? at + m[0].length : skipToken(text, at)
    const s = text.slice(at, next)
    if (m || (s.trim() !== '' && !/^(--|\/\*|')/.test(s))) out.push({ text: s, from: at, to: next, word: !!m || s[0] === '"' })
    at = next
  }
  return out
}

// inside reports whether an offset lies within a string, a comment or a quoted name.
function inside(text: string, from: number, offset: number): boolean {
  for (let at = from; at < offset;) {
    const next = skipToken(text, at)
    const token = text.slice(at, next)
    if (next > offset && next - at > 1) return true
    if (next === offset && token.startsWith('--')) return true
    if (next === offset && next === text.length && /^['"]/.test(token) && (token.length === 1 || !token.endsWith(token[0]!))) return true
    at = next
  }
  return false
}

const relationWords = new Set(['from', 'join', 'into', 'view', 'source', 'describe', 'summarize'])

function wantsRelation(before: Token[]): boolean {
  const last = before.at(-1)!
  if (relationWords.has(last.text.toLowerCase())) return true
  if (last.text !== ',') return false
  // A comma within FROM: walk back over names to the word that began the list.
  for (let i = before.length - 2; i >= 0; i--) {
    const t = before[i]!
    if (t.text.toLowerCase() === 'from') return true
    if (!t.word && t.text !== ',' && t.text !== '.') return false
    if (stops.has(t.text.toLowerCase())) return false
  }
  return false
}

const stops = new Set(`select where group order having limit on using join left right full inner cross natural union
except intersect qualify window offset as at set by asof semi anti positional`.split(/\s+/))

// relations finds what FROM and JOIN name, each with the name or alias that columns may be prefixed with.
function relations(tokens: Token[], catalog: readonly Relation[]): { alias: string; relation?: Relation }[] {
  const out: { alias: string; relation?: Relation }[] = []
  let expect = false
  for (let i = 0; i < tokens.length; i++) {
    const t = tokens[i]!
    const low = t.text.toLowerCase()
    if (low === 'from' || low === 'join') expect = true
    else if (expect && t.word && !stops.has(low)) {
      const name = unquote(t.text)
      let alias = tokens[i + 1]
      if (alias?.text.toLowerCase() === 'as') alias = tokens[i + 2]
      const named = alias?.word && !stops.has(alias.text.toLowerCase())
      const relation = find(catalog, name)
      out.push({ alias: (named ? unquote(alias!.text) : name).toLowerCase(), ...(relation && { relation }) })
      const end = tokens[i + (named ? (tokens[i + 1]!.text.toLowerCase() === 'as' ? 3 : 2) : 1)]
      expect = end?.text === ','
      if (expect) i += named ? 1 : 0
    } else if (t.text !== ',') expect = false
  }
  return out.some((r) => r.relation) ? out : []
}

const unquote = (s: string) => (s.startsWith('"') ? s.slice(1, -1).replaceAll('""', '"') : s)
const find = (catalog: readonly Relation[], name: string) => catalog.find((r) => r.name.toLowerCase() === name.toLowerCase())

const columns = (r: Relation, weight: number): Suggestion[] =>
  r.columns.map((c, i) => ({
    label: c.name,
    kind: 'column',
    detail: c.type + (c.role === 'key' ? ' · key' : ''),
    info: r.name,
    insert: quoteName(c.name),
    weight: weight - i / 1000,
  }))

const relation = (r: Relation, weight: number): Suggestion => ({
  label: r.name,
  kind: 'relation',
  detail: r.kind === 'materialized' ? 'materialized view' : r.kind,
  info: r.columns.map((c) => c.name).join(', '),
  insert: quoteName(r.name),
  weight,
})

const func = (f: (typeof functions)[number], weight: number): Suggestion => ({
  label: f.name,
  kind: 'function',
  detail: f.signature.slice(f.name.length),
  info: f.about,
  insert: f.signature === 'count(*)' ? f.signature : f.name + '(',
  weight,
})

const keyword = (k: string, weight: number): Suggestion => ({ label: k, kind: 'keyword', detail: '', insert: k, weight })

function unique(options: Suggestion[]): Suggestion[] {
  const seen = new Set<string>()
  return options.filter((o) => {
    const id = o.kind + ' ' + o.label.toLowerCase()
    return !seen.has(id) && seen.add(id)
  })
}
