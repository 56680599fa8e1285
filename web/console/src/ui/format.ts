// Numbers, sizes, times and ages as people read them. Thousands are set apart by commas, as charts do.

export function count(n: number | bigint | null | undefined): string {
  if (n === null || n === undefined) return '–'
  const whole = typeof n === 'bigint' ? n : Math.round(n)
  return String(whole).replace(/\B(?=(\d{3})+$)/g, ',')
}

// lag is a count that nobody may know, as without a broker that answers.
export function lag(n: number | null): string {
  return n === null ? 'unknown' : count(n)
}

// behind sums lags up.
export function behind(lags: readonly (number | null)[]): string {
  const known = lags.filter((n) => n !== null)
  const sum = plural(known.reduce((a, b) => a + b, 0), 'record') + ' behind'
  if (known.length === lags.length) return sum
  return known.length === 0 ? 'lag unknown' : `${sum}, ${lags.length - known.length} unknown`
}

// plural writes a count with its noun.
export const plural = (n: number, one: string, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return '–'
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let i = 0
  while (n >= 999.5 && i < units.length - 1) {
    n /= 1000
    i++
  }
  return `${i === 0 || n >= 99.5 ? Math.round(n) : n.toFixed(1)} ${units[i]}`
}

export function rate(n: number | null | undefined): string {
  if (n === null || n === undefined) return '–'
  if (n >= 9999.5) return count(n)
  return n >= 9.95 || n === 0 ? count(n) : n.toFixed(1)
}

// duration writes milliseconds with two digits of meaning.
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–'
  if (ms < 1) return '<1 ms'
  if (ms < 999.5) return `${Math.round(ms)} ms`
  const s = ms / 1000
  if (s < 9.95) return `${s.toFixed(1)} s`
  if (s < 90) return `${Math.round(s)} s`
  if (s < 5400) return `${Math.round(s / 60)} min`
  if (s < 129_600) return `${Math.round(s / 3600)} h`
  return `${Math.round(s / 86_400)} days`
}

// age is a duration that is read again and again: below ten seconds in tenths, so that it does not flicker.
export function age(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || ms >= 9950) return duration(ms)
  return ms < 50 ? '<0.1 s' : `${(ms / 1000).toFixed(1)} s`
}

export const ago = (ms: number) => (ms < 1000 ? 'just now' : `${duration(ms)} ago`)

// moment writes a time of day, with the date when it is not today. `now` is a Date.now().
export function moment(t: string | number, now: number): string {
  const d = new Date(t)
  if (Number.isNaN(d.getTime())) return String(t)
  const time = d.toLocaleTimeString('en-GB')
  return d.toDateString() === new Date(now).toDateString() ? time : `${day(d)} ${time}`
}

const day = (d: Date) => `${d.getFullYear()}-${String(d.getMonth() + 1).padStart(2, '0')}-${String(d.getDate()).padStart(2, '0')}`
