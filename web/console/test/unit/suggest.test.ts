import { expect, test } from 'vitest'
import { quoteName, suggest, type Relation } from '../../src/sql/suggest.ts'

const catalog: Relation[] = [
  { name: 'revenue', kind: 'materialized', columns: [{ name: 'city', type: 'VARCHAR', role: 'key' }, { name: 'total', type: 'DECIMAL(38,2)', role: 'result' }] },
  { name: 'odd name', kind: 'view', columns: [{ name: 'group', type: 'BIGINT' }] },
  { name: 'orders', kind: 'source', columns: [{ name: 'amount', type: 'DOUBLE' }] },
]

// at asks with the cursor at the bar.
function at(text: string, kind?: string) {
  const cursor = text.indexOf('|')
  const got = suggest(text.replace('|', ''), cursor, catalog)
  return got?.options.filter((o) => !kind || o.kind === kind).map((o) => o.label)
}

test.each([
  ['SELECT | FROM revenue', ['city', 'total']],
  ['SELECT r.| FROM revenue r', ['city', 'total']],
  ['SELECT r.to| FROM orders o JOIN revenue AS r ON true', ['city', 'total']],
  ['SELECT REVENUE.| FROM Revenue', ['city', 'total']],
  ['SELECT | FROM revenue, orders', ['city', 'total', 'amount']],
  ['SELECT "odd name".| FROM "odd name"', ['group']],
  ['SELECT 1; SELECT | FROM orders', ['amount']],
  ['SELECT | FROM orders; SELECT * FROM revenue', ['amount']],
  ['SELECT * FROM revenue WHERE |', ['city', 'total']],
  ['SELECT |', ['city', 'total', 'group', 'amount']],
])('columns at %s', (text, want) => expect(at(text, 'column')).toEqual(want))

test.each(['SELECT * FROM |', 'SELECT * FROM rev|', 'SELECT * FROM orders o JOIN |', 'SELECT * FROM orders, |', 'VERIFY VIEW |', 'DESCRIBE |'])('relations at %s', (text) => {
  expect(at(text, 'relation')).toEqual(['revenue', 'odd name', 'orders'])
  expect(at(text, 'column')).toEqual([])
})

test.each(["SELECT 'a |b'", "SELECT '|", 'SELECT 1 -- note |', '/* | */ SELECT 1', 'SELECT nothing.| FROM revenue'])('nothing at %s', (text) => {
  expect(at(text)).toBeUndefined()
})

test('a statement begins with a statement word', () => {
  expect(at('SELECT 1;\n|')).toContain('CREATE MATERIALIZED VIEW')
  expect(at('|', 'column')).toEqual([])
})

test('names are quoted when they must be', () => {
  expect(['city', 'odd name', 'group', 'a"b', '1st', 'Größe'].map(quoteName)).toEqual(['city', '"odd name"', '"group"', '"a""b"', '"1st"', '"Größe"'])
  expect(suggest('SELECT * FROM ', 14, catalog)?.options[1]?.insert).toBe('"odd name"')
})
