// The live catalogue: views and sources, refreshed while the page is visible, faster where they are on screen.

import { signal } from '@preact/signals'
import { ApiError, getSources, getViews } from '../api/client.ts'
import type { Source, View } from '../api/types.ts'
import { loginNeeded, online, visible } from './connection.ts'

export const views = signal<readonly View[] | undefined>(undefined)
export const sources = signal<readonly Source[] | undefined>(undefined)
export const catalogError = signal('')
export const rateHistory = signal<ReadonlyMap<string, readonly number[]>>(new Map())

const samples = 60
let timer: ReturnType<typeof setTimeout> | undefined
let period = 5000

// follow sets how often the catalogue is read, in milliseconds, and reads it now.
export function follow(ms: number) {
  period = ms
  void refresh()
}

export async function refresh() {
  clearTimeout(timer)
  if (visible.peek() && !loginNeeded.peek() && (online.peek() || views.peek() === undefined)) {
    try {
      const [v, s] = await Promise.all([getViews(), getSources()])
      views.value = v
      sources.value = s
      catalogError.value = ''
      remember(v, s)
    } catch (err) {
      catalogError.value = (err as Error).message
      if (err instanceof ApiError && err.status === 401) loginNeeded.value = true
    }
  }
  clearTimeout(timer)
  timer = setTimeout(refresh, period)
}

function remember(v: readonly View[], s: readonly Source[]) {
  const old = rateHistory.peek()
  const out = new Map<string, readonly number[]>()
  const add = (name: string, rate: number) => out.set(name, [...(old.get(name) ?? []).slice(1 - samples), rate])
  for (const x of v) if (x.kind === 'materialized') add('view ' + x.name, x.rate)
  for (const x of s) add('source ' + x.name, x.rate)
  rateHistory.value = out
}
