// First queries, built from what the appliance has.

import type { Source, View, ViewColumn } from '../api/types.ts'
import { kindOf } from '../grid/text.ts'
import { quoteName } from './suggest.ts'

export interface Example { title: string; sql: string }

export const createSource = `CREATE SOURCE orders (
  order_id BIGINT, city VARCHAR, amount DECIMAL(12,2), placed_at TIMESTAMP
) WITH (
  connector = 'kafka', brokers = 'localhost:9092', topic = 'orders', format = 'json'
);`

// firstQuery fills the editor at a first visit. Of what is read only nothing changes, and no source can be read.
export function firstQuery(views: readonly View[], sources: readonly Source[], readOnly = false): string {
  const view = best(views)
  if (readOnly) {
    return view
      ? `-- ${view.name} as the checkpoint has it. Ctrl+Enter (Cmd+Enter) runs the statement at the cursor.\n${topOf(view)};\n`
      : '-- This checkpoint has no view.\n'
  }
  if (view) {
    return `-- ${view.name} is kept up to date as events arrive. Ctrl+Enter (Cmd+Enter) runs the statement\n` +
      `-- at the cursor; the Live switch runs it again on every commit.\n${topOf(view)};\n`
  }
  const source = sources[0]
  if (source) return `-- No view yet. This one counts the records of ${source.name} as they arrive.\n${createView(source)}\n`
  return `-- Nothing is connected yet. Name a topic and its columns, then press Ctrl+Enter (Cmd+Enter).\n${createSource}\n`
}

// examples are a handful of statements that work right now.
export function examples(views: readonly View[], sources: readonly Source[], readOnly = false): Example[] {
  const out: Example[] = []
  const view = best(views)
  if (view) {
    const number = numberOf(view)
    const key = keyOf(view)
    out.push({ title: `Top groups of ${view.name}`, sql: topOf(view) })
    if (number) {
      out.push({ title: `Totals over ${view.name}`, sql: `SELECT count(*) AS groups, sum(${quoteName(number.name)}) AS total\nFROM ${quoteName(view.name)}` })
    }
    if (number && key) {
      out.push({
        title: 'Share of the whole',
        sql: `SELECT ${quoteName(key.name)}, ${quoteName(number.name)},\n       round(100.0 * ${quoteName(number.name)} / sum(${quoteName(number.name)}) OVER (), 1) AS percent\nFROM ${quoteName(view.name)}\nORDER BY percent DESC LIMIT 20`,
      })
    }
  }
  const timed = views.find((v) => v.columns.some((c) => c.role === 'key' && kindOf(c.type) === 'time') && numberOf(v))
  if (timed) {
    const time = timed.columns.find((c) => c.role === 'key' && kindOf(c.type) === 'time')!
    out.push({
      title: `${timed.name} over time`,
      sql: `SELECT ${quoteName(time.name)}, sum(${quoteName(numberOf(timed)!.name)}) AS total\nFROM ${quoteName(timed.name)}\nGROUP BY ALL ORDER BY 1`,
    })
  }
  if (readOnly) return out
  if (sources[0]) {
    out.push({ title: `Newest records of ${sources[0].name}`, sql: `SELECT * FROM ${quoteName(sources[0].name)} LIMIT 100` })
    out.push({ title: `A view over ${sources[0].name}`, sql: createView(sources[0]) })
  }
  if (view) out.push({ title: `Prove ${view.name}`, sql: `VERIFY VIEW ${quoteName(view.name)}` })
  return out
}

// queryOf is the one-click query of a view or source.
export function queryOf(v: { name: string; columns: readonly ViewColumn[] }): string {
  return topOf(v)
}

export function createView(source: Source): string {
  const key = source.columns.find((c) => kindOf(c.type) === 'text')
  const number = source.columns.find((c) => /^(DECIMAL|DOUBLE|FLOAT)/i.test(c.type))
  const select = [key && quoteName(key.name), 'count(*) AS records', number && `sum(${quoteName(number.name)}) AS total`]
  return `CREATE MATERIALIZED VIEW ${quoteName(source.name + '_by_' + (key?.name ?? 'all'))} AS\nSELECT ${select.filter(Boolean).join(', ')}\nFROM ${quoteName(source.name)}${key ? ` GROUP BY ${quoteName(key.name)}` : ''};`
}

function topOf(v: { name: string; columns: readonly ViewColumn[] }): string {
  const number = numberOf(v)
  const time = v.columns.find((c) => c.role === 'key' && kindOf(c.type) === 'time')
  const order = time ?? number
  return `SELECT * FROM ${quoteName(v.name)}${order ? `\nORDER BY ${quoteName(order.name)} DESC` : ''} LIMIT 100`
}

const numberOf = (v: { columns: readonly ViewColumn[] }) =>
  v.columns.find((c) => c.role === 'result' && /revenue|total|amount|sum/i.test(c.name) && kindOf(c.type) === 'number') ??
  v.columns.find((c) => c.role === 'result' && kindOf(c.type) === 'number')

const keyOf = (v: { columns: readonly ViewColumn[] }) => v.columns.find((c) => c.role === 'key')

const best = (views: readonly View[]) => {
  const kept = views.filter((v) => v.kind === 'materialized')
  return kept.find((v) => numberOf(v) && v.columns.some((c) => c.role === 'key' && kindOf(c.type) === 'text')) ?? kept[0]
}
