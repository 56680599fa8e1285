// Where statements begin and end in a text, by DuckDB's lexical rules: quotes, dollar quotes, E-strings, line comments
// and nested block comments. Offsets are UTF-16 code units, as in a JavaScript string.

export interface Statement {
  from: number // first character that is neither space nor comment
  to: number // after the last such character, without the semicolon
  end: number // after the semicolon, or `to` when there is none
}

// split lists the statements of a text in order. A stretch of nothing but space and comments is none.
export function split(text: string): Statement[] {
  const out: Statement[] = []
  let from = -1
  let to = 0
  let at = 0
  while (at < text.length) {
    const next = skipToken(text, at)
    const c = text[at]!
    if (c === ';') {
      if (from >= 0) out.push({ from, to, end: next })
      from = -1
    } else if (!isSpace(c) && !isComment(text, at)) {
      if (from < 0) from = at
      to = next
    }
    at = next
  }
  if (from >= 0) out.push({ from, to, end: to })
  return out
}

// statementAt returns the statement that a cursor means: the one around it, else the one that ends before it on the
// same line, else the next one, else the last one.
export function statementAt(text: string, cursor: number): Statement | undefined {
  const all = split(text)
  const i = all.findIndex((s) => cursor <= s.end)
  if (i < 0) return all.at(-1)
  const here = all[i]!
  const before = all[i - 1]
  if (cursor < here.from && before && !text.slice(before.end, cursor).includes('\n')) return before
  return here
}

// byteToIndex turns a byte offset of the UTF-8 form of a text into an index of the text. Offsets beyond the end or
// inside a character go to the nearest index before.
export function byteToIndex(text: string, bytes: number): number {
  let i = 0
  for (const c of text) {
    const n = c.codePointAt(0)!
    bytes -= n < 0x80 ? 1 : n < 0x800 ? 2 : n < 0x10000 ? 3 : 4
    if (bytes < 0) break
    i += c.length
  }
  return i
}

// skipToken returns the offset after the token at `at`. What it doesn't know is one character long.
export function skipToken(text: string, at: number): number {
  const c = text[at]!
  if (c === "'") return quoted(text, at, "'", /[eE]/.test(text[at - 1] ?? '') && !isWord(text[at - 2] ?? ''))
  if (c === '"') return quoted(text, at, '"', false)
  if (c === '-' && text[at + 1] === '-') {
    const nl = text.indexOf('\n', at)
    return nl < 0 ? text.length : nl
  }
  if (c === '/' && text[at + 1] === '*') return block(text, at)
  if (c === '$' && !isWord(text[at - 1] ?? '')) {
    const tag = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y
    tag.lastIndex = at
    const m = tag.exec(text)
    if (m) {
      const close = text.indexOf(m[0], at + m[0].length)
      return close < 0 ? text.length : close + m[0].length
    }
  }
  return at + 1
}

function quoted(text: string, at: number, quote: string, backslash: boolean): number {
  for (let i = at + 1; i < text.length; i++) {
    if (backslash && text[i] === '\\') i++
    else if (text[i] === quote) {
      if (text[i + 1] !== quote) return i + 1
      i++
    }
  }
  return text.length
}

function block(text: string, at: number): number {
  let depth = 0
  for (let i = at; i < text.length - 1; i++) {
    if (text[i] === '/' && text[i + 1] === '*') {
      depth++
      i++
    } else if (text[i] === '*' && text[i + 1] === '/') {
      i++
      if (--depth === 0) return i + 1
    }
  }
  return text.length
}

const isSpace = (c: string) => c === ' ' || c === '\n' || c === '\t' || c === '\r' || c === '\f' || c === '\v'
const isWord = (c: string) => /[\w\u0080-\uffff]/.test(c)
const isComment = (text: string, at: number) =>
  (text[at] === '-' && text[at + 1] === '-') || (text[at] === '/' && text[at + 1] === '*')
