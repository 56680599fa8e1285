import { describe, expect, test } from 'vitest'
import { dump, payload } from '../../src/pages/payload.ts'
import { createView, examples, firstQuery } from '../../src/sql/examples.ts'
import { Commits } from '../../src/store/commits.ts'
import { age, behind, bytes, count, duration, lag, rate } from '../../src/ui/format.ts'
import type { Source, View } from '../../src/api/types.ts'

const base64 = (s: string) => Buffer.from(s, 'utf8').toString('base64')

test('payloads', () => {
  expect(payload(base64('{"a": "é"}'))).toEqual({ kind: 'text', text: '{"a": "é"}', size: 11 })
  expect(payload('')).toMatchObject({ kind: 'empty' })
  expect(payload(null)).toMatchObject({ kind: 'tombstone' })
  expect(payload('//4A')).toEqual({ kind: 'hex', text: dump(new Uint8Array([0xff, 0xfe, 0])), size: 3 })
  expect(dump(new Uint8Array([0x41, 0x0a]))).toMatch(/^000000 {2}41 0a +A\.$/)
})

test('a lag that nobody knows', () => {
  expect([null, 0, 1234].map(lag)).toEqual(['unknown', '0', '1,234'])
  expect(behind([])).toBe('0 records behind')
  expect(behind([1, 0])).toBe('1 record behind')
  expect(behind([null, 7])).toBe('7 records behind, 1 unknown')
  expect(behind([null, null])).toBe('lag unknown')
})

test('formats', () => {
  expect([0, 999, 1000, 1234567, -1234].map(count)).toEqual(['0', '999', '1,000', '1,234,567', '-1,234'])
  expect(count(9223372036854775807n)).toBe('9,223,372,036,854,775,807')
  expect([0, 999, 1000, 1_902_844, 68_200_000_000].map(bytes)).toEqual(['0 B', '999 B', '1.0 kB', '1.9 MB', '68.2 GB'])
  expect([0.2, 12, 999.7, 2400, 15_000, 120_000, 7_200_000, 2e8].map(duration)).toEqual(['<1 ms', '12 ms', '1.0 s', '2.4 s', '15 s', '2 min', '2 h', '2 days'])
  expect([0, 240, 9949, 12_000].map(age)).toEqual(['<0.1 s', '0.2 s', '9.9 s', '12 s'])
  expect([0, 0.44, 12.3, 12_345].map(rate)).toEqual(['0', '0.4', '12', '12,345'])
})

describe('the age of an epoch', () => {
  const c = new Commits()
  c.saw(10, 1000)
  c.saw(20, 2000)
  test('known, between, beyond and unknown', () => {
    expect(c.ageOf(10, 3000)).toBe(2000)
    expect(c.ageOf(15, 3000)).toBe(1500)
    expect(c.ageOf(25, 3000)).toBe(1000)
    expect(c.ageOf(9, 3000)).toBeUndefined()
    expect(c.ageOf(20, 1500)).toBe(0)
  })
  test('a clock that is wrong by minutes is corrected, one by a second is not', () => {
    const c = new Commits()
    c.saw(1, 1_000_000)
    c.measure(1_000_000, 1_300_700)
    expect(c.ageOf(1, 1_300_700)).toBe(500)
    c.measure(1_000_000, 1_001_000)
    expect(c.skew).toBe(0)
  })
  test('what comes late is ignored, what comes after a restart is not', () => {
    c.saw(15, 1999)
    expect(c.ageOf(15, 3000)).toBe(1500)
    c.forget()
    c.saw(3, 9000)
    expect(c.ageOf(3, 10_000)).toBe(1000)
  })
})

test('first queries come from the catalogue', () => {
  const view = { name: 'by city', kind: 'materialized', columns: [{ name: 'city', type: 'VARCHAR', role: 'key' }, { name: 'revenue', type: 'DECIMAL(38,2)', role: 'result' }] } as View
  const source = { name: 'orders', columns: [{ name: 'city', type: 'VARCHAR' }, { name: 'amount', type: 'DECIMAL(12,2)' }] } as Source
  expect(firstQuery([view], [source])).toContain('SELECT * FROM "by city"\nORDER BY revenue DESC LIMIT 100;')
  expect(firstQuery([], [source])).toContain('CREATE MATERIALIZED VIEW orders_by_city')
  expect(firstQuery([], [])).toContain('CREATE SOURCE')
  expect(examples([view], [source]).map((e) => e.sql).join('\n')).toContain('VERIFY VIEW "by city"')
  expect(createView(source)).toBe('CREATE MATERIALIZED VIEW orders_by_city AS\nSELECT city, count(*) AS records, sum(amount) AS total\nFROM orders GROUP BY city;')
})
