import { expect, test } from 'vitest'
import { byteToIndex, split, statementAt } from '../../src/sql/split.ts'

const texts = (sql: string) => split(sql).map((s) => sql.slice(s.from, s.to))

test.each([
  ['', []],
  ['  -- nothing\n /* here */ ;;', []],
  ['SELECT 1', ['SELECT 1']],
  ['SELECT 1;\nSELECT 2 ;', ['SELECT 1', 'SELECT 2']],
  ["SELECT ';' ; SELECT 2", ["SELECT ';'", 'SELECT 2']],
  ["SELECT 'it''s; fine'; x", ["SELECT 'it''s; fine'", 'x']],
  ["SELECT E'\\'; still'; x", ["SELECT E'\\'; still'", 'x']],
  ["SELECT '\\'; x", ["SELECT '\\'", 'x']],
  ['SELECT "a;""b" FROM t; x', ['SELECT "a;""b" FROM t', 'x']],
  ['SELECT $$ ; $$; SELECT $q$ $$ ; $q$', ['SELECT $$ ; $$', 'SELECT $q$ $$ ; $q$']],
  ['SELECT $1; SELECT $name', ['SELECT $1', 'SELECT $name']],
  ['SELECT 1 -- ; no\n, 2; x', ['SELECT 1 -- ; no\n, 2', 'x']],
  ['/* ; /* ; */ ; */ SELECT 1; x', ['SELECT 1', 'x']],
  ['-- first\nSELECT 1 -- last\n;', ['SELECT 1']],
  ["SELECT 'open ; SELECT 2", ["SELECT 'open ; SELECT 2"]],
  ['SELECT 4 / 2; SELECT 3 - 1', ['SELECT 4 / 2', 'SELECT 3 - 1']],
])('split %j', (sql, want) => expect(texts(sql)).toEqual(want))

test('the statement a cursor means', () => {
  const sql = 'SELECT 1;  \n\n-- two\nSELECT 2;\nSELECT 3\n'
  const at = (cursor: number) => {
    const s = statementAt(sql, cursor)
    return s && sql.slice(s.from, s.to)
  }
  expect(at(0)).toBe('SELECT 1')
  expect(at(8)).toBe('SELECT 1') // before the semicolon
  expect(at(9)).toBe('SELECT 1') // after it
  expect(at(11)).toBe('SELECT 1') // further on the same line
  expect(at(12)).toBe('SELECT 2') // on the empty line after it
  expect(at(15)).toBe('SELECT 2') // in the comment
  expect(at(sql.indexOf('SELECT 3'))).toBe('SELECT 3')
  expect(at(sql.length)).toBe('SELECT 3')
  expect(statementAt('-- nothing', 3)).toBeUndefined()
})

test('a byte offset becomes an index', () => {
  const sql = "a é 東 😀 x"
  expect([0, 2, 4, 5, 8, 9, 13, 14].map((b) => sql.slice(byteToIndex(sql, b)))).toEqual([
    sql, 'é 東 😀 x', ' 東 😀 x', '東 😀 x', ' 😀 x', '😀 x', ' x', 'x',
  ])
  expect(byteToIndex(sql, 3)).toBe(2) // inside é
  expect(byteToIndex(sql, 999)).toBe(sql.length)
})
