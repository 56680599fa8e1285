import { describe, expect, test } from 'vitest'
import { parse, parseExact, stringify } from '../../src/api/json.ts'

describe('numbers', () => {
  test.each([
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['18446744073709551615', 18446744073709551615n],
    ['9007199254740993', 9007199254740993n],
    ['9007199254740991', 9007199254740991],
    ['0.12345678901234567', 0.12345678901234567],
    ['1e308', 1e308],
    ['-0', -0],
    ['123456789012345678e2', 12345678901234567800],
  ])('%s', (text, want) => {
    expect(parse(text)).toBe(want)
    expect(stringify(parse(`[${text}]`)).slice(1, -1)).toBe(stringify(want))
  })

  test('a long integer anywhere keeps its digits', () => {
    expect(parse('{"rows":[[9223372036854775807,{"a":[-9007199254740993]}]]}')).toEqual({
      rows: [[9223372036854775807n, { a: [-9007199254740993n] }]],
    })
  })
})

test('equals JSON.parse on everything else', () => {
  const texts = [
    'null', 'true', ' [ ] ', '{}', '""', '"a\\u0041\\n\\"\\\\\\/\\b\\f\\r\\t"', '[1,2.5,-3e-2,{"a":{"b":[null,false]}}]',
    '"\\ud83d\\ude00 \\ud83d"', '{"a":1,"a":2}', '{"":0}', '\t\r\n 7 ', '"\u2028é東"', '[[[[[[]]]]]]', '0', '-1.0E+2', '"\u007f"',
  ]
  for (const t of texts) expect(parseExact(t), t).toEqual(JSON.parse(t))
})

test('refuses what JSON.parse refuses', () => {
  const texts = [
    '', ' ', '[', '[1,]', '{"a"}', '{"a":}', '{a:1}', "'a'", '01', '+1', '.5', '1.', '1e', '-', '"\n"', '"\\x"', '"\\u12g4"', '"', 'nul',
    'tru', '[1 2]', '1 2', '{"a":1,}', 'NaN', 'Infinity', '"\\', '[1}',
  ]
  for (const t of texts) {
    expect(() => JSON.parse(t), t).toThrow()
    expect(() => parseExact(t), t).toThrow(SyntaxError)
  }
})

test('__proto__ is a name like any other', () => {
  const v = parseExact('{"__proto__":{"x":1}}') as object
  expect(Object.getPrototypeOf(v)).toBe(Object.prototype)
  expect(Object.keys(v)).toEqual(['__proto__'])
})

test('deep nesting is an error, not a crash', () => {
  expect(() => parseExact('['.repeat(100_000))).toThrow(SyntaxError)
})
