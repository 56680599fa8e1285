import { describe, expect, test } from 'vitest'
import { changes, Change, keyColumns } from '../../src/grid/changes.ts'
import { chartOf, keysOf, ticks } from '../../src/grid/chart.ts'
import { isCut, lacks } from '../../src/grid/whole.ts'
import { spreadsheetSafe, tsv } from '../../src/grid/copy.ts'
import { sortRows } from '../../src/grid/order.ts'
import { at, clamp, move, rectangle, type Selection } from '../../src/grid/selection.ts'
import { kindOf, show, textOf, visible } from '../../src/grid/text.ts'
import { rowHeight, Viewport } from '../../src/grid/viewport.ts'
import type { Json } from '../../src/api/json.ts'

describe('viewport', () => {
  test.each([0, 1, 5, 1000, 1_000_000, 100_000_000])('%d rows: every row can be reached', (rows) => {
    const v = new Viewport(rows, 400)
    for (const row of [0, 1, Math.floor(rows / 2), rows - 2, rows - 1].filter((r) => r >= 0 && r < rows)) {
      const top = v.reveal(row, 0)
      const w = v.window(top)
      expect(row).toBeGreaterThanOrEqual(w.first)
      expect(row).toBeLessThan(w.last)
      const y = w.y + (row - w.first) * rowHeight - top
      expect(y).toBeGreaterThanOrEqual(-0.01)
      expect(y + rowHeight).toBeLessThanOrEqual(400.01)
    }
    expect(v.content).toBeLessThanOrEqual(8_000_000)
    expect(v.window(v.content).last).toBeLessThanOrEqual(rows)
    expect(v.window(0).last - v.window(0).first).toBeLessThanOrEqual(18)
  })

  test('the end of the scroll bar is the end of the rows', () => {
    for (const rows of [100, 100_000_000]) {
      const v = new Viewport(rows, 400)
      expect(v.window(v.content - 400).last).toBe(rows)
    }
  })

  test('a row on screen does not scroll', () => {
    expect(new Viewport(1000, 400).reveal(5, 26)).toBe(26)
  })
})

describe('selection', () => {
  const size = { rows: 100, columns: 5, page: 10 }
  const press = (s: Selection, key: string, mods = '') => move(s, { key, shift: mods.includes('s'), ctrl: mods.includes('c') }, size)

  test('moves, and stops at the edges', () => {
    expect(press(at(0, 0), 'ArrowDown')).toEqual(at(1, 0))
    expect(press(at(0, 0), 'ArrowLeft')).toEqual(at(0, 0))
    expect(press(at(0, 2), 'ArrowUp')).toEqual(at(-1, 2)) // the header
    expect(press(at(-1, 2), 'ArrowUp')).toEqual(at(-1, 2))
    expect(press(at(99, 4), 'ArrowDown')).toEqual(at(99, 4))
    expect(press(at(50, 2), 'ArrowDown', 'c')).toEqual(at(99, 2))
    expect(press(at(50, 2), 'PageDown')).toEqual(at(60, 2))
    expect(press(at(95, 2), 'PageDown')).toEqual(at(99, 2))
    expect(press(at(50, 2), 'Home')).toEqual(at(50, 0))
    expect(press(at(50, 2), 'End', 'c')).toEqual(at(99, 4))
    expect(press(at(5, 2), 'x')).toBeUndefined()
  })

  test('extends with Shift, takes rows, columns and all', () => {
    const s = press(press(at(5, 1), 'ArrowDown', 's')!, 'ArrowRight', 's')!
    expect(rectangle(s)).toEqual({ top: 5, left: 1, bottom: 6, right: 2 })
    expect(rectangle(press(at(5, 1), ' ', 's')!)).toEqual({ top: 5, left: 0, bottom: 5, right: 4 })
    expect(rectangle(press(at(5, 1), ' ', 'c')!)).toEqual({ top: 0, left: 1, bottom: 99, right: 1 })
    expect(rectangle(press(at(5, 1), 'a', 'c')!)).toEqual({ top: 0, left: 0, bottom: 99, right: 4 })
    expect(press(s, 'Escape')).toEqual(at(6, 2))
    expect(press(at(0, 0), 'Escape')).toBeUndefined()
  })

  test('stays inside a grid that shrank', () => {
    expect(clamp({ anchorRow: 90, anchorColumn: 0, row: 99, column: 4 }, { rows: 3, columns: 2, page: 1 })).toEqual({ anchorRow: 2, anchorColumn: 0, row: 2, column: 1 })
    expect(clamp(at(5, 1), { rows: 0, columns: 2, page: 1 }).row).toBe(-1)
  })
})

test('texts of values are exact', () => {
  expect(textOf(9223372036854775807n, 'BIGINT')).toBe('9223372036854775807')
  expect(textOf('170141183460469231731687303715884105727', 'HUGEINT')).toBe('170141183460469231731687303715884105727')
  expect(textOf(5, 'DOUBLE')).toBe('5.0')
  expect(textOf(-0, 'DOUBLE')).toBe('-0.0')
  expect(textOf(5, 'INTEGER')).toBe('5')
  expect(textOf(0.1, 'DOUBLE')).toBe('0.1')
  expect(textOf('NaN', 'DOUBLE')).toBe('NaN')
  expect(textOf({ a: [1, null, 9223372036854775807n] }, 'STRUCT(a BIGINT[])')).toBe('{"a":[1,null,9223372036854775807]}')
})

test('NULL, the empty text and the word NULL look different', () => {
  const looks = [null, '', 'NULL'].map((v) => show(v, 'VARCHAR'))
  expect(new Set(looks.map((l) => l.look + l.text)).size).toBe(3)
  expect(show('2026-11-29T14:03:07', 'TIMESTAMP').text).toBe('2026-11-29 14:03:07')
  expect(show('x'.repeat(10_000), 'VARCHAR').text.length).toBeLessThan(600)
})

test('control, bidi and zero-width characters are shown', () => {
  expect(visible('a\tb\nc\u0000d\u202Ee\u200Bf\u007f')).toBe('a⇥b⏎c⟨U+0000⟩d⟨U+202E⟩e⟨U+200B⟩f⟨U+007F⟩')
  expect(visible('a\tb\nc', '\n\t')).toBe('a\tb\nc')
  expect(visible('é 東 😀')).toBe('é 東 😀')
})

test.each([
  ['BIGINT', 'number'], ['UHUGEINT', 'number'], ['DECIMAL(38,2)', 'number'], ['DOUBLE', 'number'], ['INTERVAL', 'text'], ['BIGINT[]', 'nested'],
  ['STRUCT(a BIGINT)', 'nested'], ['MAP(VARCHAR, BIGINT)', 'nested'], ['INTEGER[3]', 'nested'], ['TIMESTAMP WITH TIME ZONE', 'time'], ['DATE', 'time'],
  ['BOOLEAN', 'boolean'], ['BLOB', 'blob'], ['VARCHAR', 'text'], ['UUID', 'text'],
])('kind of %s', (type, want) => expect(kindOf(type)).toBe(want))

test('columns sort by value, NULL last', () => {
  const sorted = (values: Json[], type: string, descending = false) => [...sortRows(values.map((v) => [v]), 0, type, descending)].map((i) => values[i])
  expect(sorted([3, null, 9007199254740993n, 9007199254740992n, -1], 'BIGINT')).toEqual([-1, 3, 9007199254740992n, 9007199254740993n, null])
  expect(sorted(['10.5', '9', '-0.25', '10.49', null], 'DECIMAL(12,2)')).toEqual(['-0.25', '9', '10.49', '10.5', null])
  expect(sorted(['170141183460469231731687303715884105727', '170141183460469231731687303715884105726'], 'HUGEINT')[0]).toMatch(/726$/)
  expect(sorted([1.5, 'NaN', 'Infinity', '-Infinity', 2], 'DOUBLE')).toEqual(['-Infinity', 1.5, 2, 'Infinity', 'NaN'])
  expect(sorted(['b', 'a', null, 'c'], 'VARCHAR', true)).toEqual(['c', 'b', 'a', null])
  expect(sorted([true, false], 'BOOLEAN')).toEqual([false, true])
})

describe('changes', () => {
  const columns = [{ name: 'city', type: 'VARCHAR' }, { name: 'n', type: 'BIGINT' }, { name: 'sum', type: 'DECIMAL(38,2)' }]
  const table = (...rows: Json[][]) => ({ columns, rows })
  const got = (a: Json[][], b: Json[][], keys = [0]) => Object.fromEntries([...changes(table(...a), table(...b), keys)].map(([i, c]) => [i, [...c]]))

  test('rows are matched by key, wherever they are', () => {
    expect(got([['a', 1, '1.00'], ['b', 2, '2.00']], [['b', 3, '1.50'], ['a', 1, '1.00'], ['c', 1, null]])).toEqual({
      0: [0, Change.Up, Change.Down],
      2: [Change.New, Change.New, Change.New],
    })
  })

  test('without a unique key, by number', () => {
    expect(got([['a', 1, '1'], ['a', 2, '2']], [['a', 1, '1'], ['a', 2, '3']])).toEqual({ 1: [0, 0, Change.Up] })
    expect(got([['a', 1, null]], [['b', 1, '1']], [])).toEqual({ 0: [Change.Other, 0, Change.Other] })
  })

  test('another table has no changes', () => {
    expect(changes(table(['a', 1, '1']), { columns: columns.slice(1), rows: [[2, '2']] }, []).size).toBe(0)
  })

  test('a bigint step is seen', () => {
    expect(got([['a', 9223372036854775806n, '']], [['a', 9223372036854775807n, '']])).toEqual({ 0: [0, Change.Up, 0] })
  })

  test('the key comes from the view that the statement names', () => {
    const views = [{ name: 'v', columns: [{ name: 'city', type: 'VARCHAR', role: 'key' as const }, { name: 'n', type: 'BIGINT', role: 'result' as const }] }]
    expect(keyColumns('select * from v', columns, views)).toEqual([0])
    expect(keyColumns('select n from v', columns.slice(1), views)).toEqual([])
  })
})

describe('copying', () => {
  const columns = [{ name: 'a\tb', type: 'VARCHAR' }, { name: 'n', type: 'BIGINT' }]
  const rows: Json[][] = [['x', 1], ['say "hi"\n', null], ['', 9223372036854775807n]]
  const all = { top: 0, left: 0, bottom: 2, right: 1 }

  test('TSV', () => {
    expect(tsv(columns, (i) => rows[i]!, all, true)).toBe('"a\tb"\tn\nx\t1\n"say ""hi""\n"\t\n""\t9223372036854775807')
    expect(tsv(columns, (i) => rows[i]!, { top: 1, left: 0, bottom: 1, right: 0 }, false)).toBe('say "hi"\n') // one cell is itself
  })

  test('CSV for spreadsheets', () => {
    expect(spreadsheetSafe('a,b\n=1+1,-5\n"@x, ""y""",-5.5e3\n"a,=b",+1\n-cmd,"-1,2"\r\n\tx,.5\n')).toBe(
      "a,b\n'=1+1,-5\n\"'@x, \"\"y\"\"\",-5.5e3\n\"a,=b\",+1\n'-cmd,\"'-1,2\"\r\n'\tx,.5\n",
    )
    expect(spreadsheetSafe('')).toBe('')
    expect(spreadsheetSafe('a\r\n"multi\n=line"\r\n')).toBe('a\r\n"multi\n=line"\r\n')
  })
})

test('charts', () => {
  const c = chartOf([{ name: 't', type: 'TIMESTAMP' }, { name: 'n', type: 'BIGINT' }], [['2026-01-01T10:01:00', 2], ['2026-01-01T10:00:00', 1]])
  expect(c).toMatchObject({ kind: 'line', labels: ['10:00', '10:01'], series: [{ name: 'n', values: [1, 2] }] })
  expect(chartOf([{ name: 'city', type: 'VARCHAR' }, { name: 's', type: 'DECIMAL(9,2)' }], [['a', '1.50'], ['b', null]])).toMatchObject({ kind: 'bars', series: [{ values: [1.5, null] }] })
  expect(chartOf([{ name: 'city', type: 'VARCHAR' }], [['a']])).toBeUndefined()
  expect(ticks(0, 47)).toEqual([0, 20, 40, 60])
  expect(ticks(-3, 3)[0]).toBeLessThanOrEqual(-3)
  expect(ticks(0, 0)).toContain(0)
})

test('a chart names its points by the key', () => {
  const typed = (...pairs: [string, string][]) => pairs.map(([name, type]) => ({ name, type }))
  const regulars = typed(['customer_id', 'BIGINT'], ['orders', 'BIGINT'], ['last', 'TIMESTAMP'])
  const rows = [[7, 3, '2026-01-01T10:00:00'], [9, 2, '2026-01-02T10:00:00']]
  expect(chartOf(regulars, rows, undefined, [0])).toMatchObject({ kind: 'bars', label: 'customer_id', labels: ['7', '9'], series: [{ name: 'orders' }], measures: [{ name: 'orders' }] })
  expect(chartOf(regulars, rows)).toMatchObject({ kind: 'line', label: 'last', series: [{ name: 'orders' }] })
  const two = typed(['city', 'VARCHAR'], ['kind', 'VARCHAR'], ['n', 'BIGINT'])
  expect(chartOf(two, [['a', 'x', 1], ['a', 'y', 2]], undefined, [0, 1])).toMatchObject({ label: 'kind', labels: ['x', 'y'] })
  expect(chartOf(two, [['a', 'x', 1], ['b', 'y', 2]], undefined, [0, 1])).toMatchObject({ label: 'city, kind', labels: ['a · x', 'b · y'] })
  const diff = typed(['change', 'VARCHAR'], ['city', 'VARCHAR'], ['n_before', 'BIGINT'], ['n_after', 'BIGINT'], ['n_delta', 'BIGINT'], ['error', 'VARCHAR'])
  expect(keysOf(diff, [])).toEqual([1])
  expect(chartOf(diff, [['changed', 'a', 1, 3, 2, null], ['changed', 'b', 1, 2, 1, null]], undefined, [1])).toMatchObject({ label: 'city', labels: ['a', 'b'], series: [{ name: 'n_delta', values: [2, 1] }] })
  expect(chartOf(typed(['x', 'BIGINT'], ['y', 'BIGINT']), [[2, 1], [1, 5]])).toMatchObject({ kind: 'line', label: 'x', series: [{ name: 'y', values: [5, 1] }] })
  expect(chartOf(typed(['n', 'BIGINT']), [[2]])).toMatchObject({ kind: 'bars', label: 'row', labels: ['1'] })
})

test('what an answer lacks, said by the server or not', () => {
  expect([{}, { truncated: true }, { truncated: true, rows_cut: true }, { truncated: true, partial: ['s'] }, { truncated: true, partial: ['s', 't'], rows_cut: true }].map((a) => [isCut(a), lacks(a, 2)])).toEqual([
    [false, []], [true, ['Cut at 2 rows']], [true, ['Cut at 2 rows']], [false, ['Shows the newest 1,000 records of s only']],
    [true, ['Shows the newest 1,000 records of s, t only', 'Cut at 2 rows']],
  ])
})
