// A record's bytes as a reader can look at them.

export interface Payload { kind: 'text' | 'hex' | 'empty' | 'tombstone'; text: string; size: number }

const shownBytes = 4096

// payload decodes base64. Valid UTF-8 is text, anything else a hex dump.
export function payload(base64: string | null | undefined): Payload {
  if (base64 === null || base64 === undefined) return { kind: 'tombstone', text: '', size: 0 }
  let bytes: Uint8Array
  try {
    bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))
  } catch {
    return { kind: 'text', text: base64, size: base64.length }
  }
  if (bytes.length === 0) return { kind: 'empty', text: '', size: 0 }
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return { kind: 'text', text: text.length > shownBytes ? text.slice(0, shownBytes) + '…' : text, size: bytes.length }
  } catch {
    return { kind: 'hex', text: dump(bytes.subarray(0, shownBytes)), size: bytes.length }
  }
}

// dump writes sixteen bytes a line: offset, hexadecimal, and what is ASCII.
export function dump(bytes: Uint8Array): string {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const part = [...bytes.subarray(at, at + 16)]
    const hex = part.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(47)
    const text = part.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '.')).join('')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex}  ${text}`)
  }
  return lines.join('\n')
}
