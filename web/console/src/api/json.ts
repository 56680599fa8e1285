// JSON that keeps every digit.
//
// The server writes 64-bit integers as JSON numbers with all their digits. JSON.parse rounds those beyond 2^53, so an
// answer that could hold one is read by the parser below, in which an integer that a number can't hold becomes a
// bigint. Everything else is as JSON.parse has it. Most answers hold no run of 16 digits and take the native parser.

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json }

// parse reads one JSON document. It throws a SyntaxError that names the offset.
export function parse(text: string): Json {
  return /\d{16}/.test(text) ? new Parser(text).document() : (JSON.parse(text) as Json)
}

// parseExact is parse without the short cut. Tests compare the two.
export function parseExact(text: string): Json {
  return new Parser(text).document()
}

// stringify writes compact JSON. Bigints are written as numbers, -0 keeps its sign.
export function stringify(v: Json): string {
  if (typeof v === 'bigint') return v.toString()
  if (typeof v === 'number') return Object.is(v, -0) ? '-0' : JSON.stringify(v)
  if (v === null || typeof v !== 'object') return JSON.stringify(v)
  if (Array.isArray(v)) return '[' + v.map(stringify).join(',') + ']'
  return '{' + Object.entries(v).map(([k, e]) => JSON.stringify(k) + ':' + stringify(e)).join(',') + '}'
}

const maxDepth = 2000
const number = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y
const plain = /[^"\\\u0000-\u001f]*/y
const escapes: Record<string, string> = {
  '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t',
}

class Parser {
  private at = 0
  private depth = 0

  constructor(private readonly text: string) {}

  document(): Json {
    const v = this.value()
    this.space()
    if (this.at < this.text.length) this.fail()
    return v
  }

  private value(): Json {
    this.space()
    switch (this.text[this.at]) {
      case '{': return this.object()
      case '[': return this.array()
      case '"': return this.string()
      case 't': return this.word('true', true)
      case 'f': return this.word('false', false)
      case 'n': return this.word('null', null)
      default: return this.number()
    }
  }

  private object(): Json {
    const out: { [name: string]: Json } = {}
    this.enter()
    if (!this.skip('}')) {
      do {
        this.space()
        const name = this.string()
        this.need(':')
        const v = this.value()
        if (name === '__proto__') {
          Object.defineProperty(out, name, { value: v, enumerable: true, configurable: true, writable: true })
        } else {
          out[name] = v
        }
      } while (this.skip(','))
      this.need('}')
    }
    this.depth--
    return out
  }

  private array(): Json {
    const out: Json[] = []
    this.enter()
    if (!this.skip(']')) {
      do out.push(this.value())
      while (this.skip(','))
      this.need(']')
    }
    this.depth--
    return out
  }

  private string(): string {
    if (this.text[this.at] !== '"') this.fail()
    this.at++
    let out = ''
    for (;;) {
      plain.lastIndex = this.at
      const run = plain.exec(this.text)![0]
      out += run
      this.at += run.length
      const c = this.text[this.at++]
      if (c === '"') return out
      if (c !== '\\') this.fail(this.at - 1)
      const e = this.text[this.at++] ?? ''
      if (e === 'u') {
        const hex = this.text.slice(this.at, this.at + 4)
        if (!/^[0-9a-fA-F]{4}$/.test(hex)) this.fail()
        out += String.fromCharCode(parseInt(hex, 16))
        this.at += 4
      } else {
        const plainChar = escapes[e]
        if (plainChar === undefined) this.fail(this.at - 1)
        out += plainChar
      }
    }
  }

  private number(): number | bigint {
    number.lastIndex = this.at
    const m = number.exec(this.text)
    if (!m) this.fail()
    this.at += m[0].length
    const v = Number(m[0])
    return m[1] === undefined && m[2] === undefined && !Number.isSafeInteger(v) ? BigInt(m[0]) : v
  }

  private word<T extends Json>(word: string, v: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail()
    this.at += word.length
    return v
  }

  private enter() {
    this.at++
    if (++this.depth > maxDepth) this.fail()
  }

  private space() {
    for (;;) {
      const c = this.text.charCodeAt(this.at)
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return
      this.at++
    }
  }

  private skip(c: string): boolean {
    this.space()
    if (this.text[this.at] !== c) return false
    this.at++
    return true
  }

  private need(c: string) {
    if (!this.skip(c)) this.fail()
  }

  private fail(at = this.at): never {
    throw new SyntaxError(at < this.text.length ? `unexpected character at offset ${at}` : 'unexpected end of the answer')
  }
}
