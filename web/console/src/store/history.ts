// What was run in this browser: newest first. Live re-runs are not in it.

import { signal } from '@preact/signals'
import { load, save } from './prefs.ts'

export interface Ran { sql: string; at: number; ms: number; epoch?: number; rows?: number; error?: string }

const kept = 300

export const history = signal<readonly Ran[]>(load<Ran[]>('history', []))

// record adds a run. The same statement twice in a row is one entry.
export function record(r: Ran) {
  const rest = history.value[0]?.sql === r.sql ? history.value.slice(1) : history.value
  history.value = [r, ...rest].slice(0, kept)
  for (let n = history.value.length; n > 0 && !save('history', history.value.slice(0, n)); n >>= 1);
}

export function clearHistory() {
  history.value = []
  save('history', [])
}
