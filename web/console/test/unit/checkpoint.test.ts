// Opens the frozen checkpoints of every version in JavaScript, as a page that got them over HTTP would, and compares every
// value with what the state was.
import { readFileSync } from 'node:fs'
import { CompressionType, setCompressionCodec, tableFromIPC, Type, type DataType } from '@uwdata/flechette'
import { decompress } from 'fzstd'
import { describe, expect, test } from 'vitest'

const fixtures = new URL('../../../../checkpoint/testdata/', import.meta.url)

// JavaScript has no ZSTD of its own. flechette wants bytes that begin at a multiple of 8: slice copies them.
setCompressionCodec(CompressionType.ZSTD, { encode: (bytes) => bytes, decode: (bytes) => decompress(bytes).slice() })

// Without these, integers beyond 2^53 throw, decimals are floats and timestamps lose their microseconds.
const exact = { useBigInt: true, useDecimalInt: true, useBigIntTimestamp: true }

interface View { columns: string[]; values: Record<string, unknown[]> }

interface Entry { name: string; groups: number; columns: { name: string; role: string }[]; file?: { name: string }; parts?: { name: string }[] }

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

const children = (type: DataType) => (type as unknown as { children: { name: string; type: DataType }[] }).children

/** canon is the spelling of expected.json, see checkpoint/emit_test.go. */
function canon(type: DataType, v: unknown): unknown {
  if (v === null || v === undefined) return null
  switch (type.typeId) {
    case Type.Bool:
      return v
    case Type.Utf8:
      return v
    case Type.Float:
      return Number.isNaN(v as number) ? 'nan' : hex(new Uint8Array(new Float64Array([v as number]).buffer).reverse())
    case Type.Binary:
    case Type.FixedSizeBinary:
      return hex(v as Uint8Array)
    case Type.Date:
      return String((v as number) / 86_400_000)
    case Type.List:
    case Type.FixedSizeList:
      return Array.from(v as Iterable<unknown>, (e) => canon(children(type)[0]!.type, e))
    case Type.Struct:
      return children(type).map((f) => canon(f.type, (v as Record<string, unknown>)[f.name]))
    case Type.Map: {
      const [key, value] = children(children(type)[0]!.type)
      return Array.from(v as Iterable<[unknown, unknown]>, ([k, e]) => [canon(key!.type, k), canon(value!.type, e)])
    }
    default: // integers, decimals as scaled integers, times and timestamps in their unit
      return String(v)
  }
}

describe.each(['v1', 'v2'])('checkpoint of version %s', (version) => {
  const root = new URL(`${version}/`, fixtures)
  const expected = JSON.parse(readFileSync(new URL('expected.json', root), 'utf8')) as { checkpoint: string; views: Record<string, View> }
  const manifest = JSON.parse(readFileSync(new URL(`${expected.checkpoint}/manifest.json`, root), 'utf8'))

  for (const view of manifest.views as Entry[]) {
    test(view.name, () => {
      const want = expected.views[view.name]!
      const files = view.parts ?? [view.file!]
      const read = (name: string) =>
        tableFromIPC(new Uint8Array(readFileSync(new URL(`${expected.checkpoint}/${name.split('/').map(encodeURIComponent).join('/')}`, root))), exact)
      // Of the rows with one key that of the last part counts; __deleted says that there is none.
      const keys = view.columns.filter((c) => c.role === 'key').map((c) => c.name)
      const rows = new Map<string, unknown[]>()
      files.forEach((file, part) => {
        const table = read(file.name)
        const types = new Map(table.schema.fields.map((f) => [f.name, f.type]))
        const column = (name: string) => table.getChild(name)!
        for (let i = 0; i < table.numRows; i++) {
          const value = (name: string) => canon(types.get(name)!, column(name).at(i))
          const key = view.parts ? JSON.stringify(keys.map(value)) : `${part}/${i}`
          rows.delete(key)
          if (!types.has('__deleted') || !column('__deleted').at(i)) rows.set(key, want.columns.map(value))
        }
      })
      expect(rows.size).toBe(view.groups)
      const text = (all: unknown[][]) => all.map((row) => JSON.stringify(row)).sort()
      expect(text([...rows.values()])).toEqual(text(want.values[want.columns[0]!]!.map((_, i) => want.columns.map((c) => want.values[c]![i]))))
    })
  }
})
