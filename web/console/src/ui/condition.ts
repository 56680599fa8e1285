// How the appliance as a whole, and each thing in the catalogue, is doing, in a word or two. Green is said of what runs
// and of nothing else.

import type { Source, Status, View } from '../api/types.ts'
import { plural } from './format.ts'

export type Look = 'good' | 'warn' | 'bad' | ''

export interface Condition { look: Look; text: string; why: string }

// conditionOf is that of an appliance. The status names the sources that wait or have stopped, each second; which of the
// two it is, and why, is in the catalogue. Whatever stopped counts more than what waits.
export function conditionOf(status: Pick<Status, 'state' | 'waiting'>, views: readonly View[], sources: readonly Source[]): Condition {
  const held = (status.waiting ?? []).map((name) => sources.find((s) => s.name === name) ?? { name, state: 'waiting' })
  const stopped = held.filter((s) => s.state === 'stopped')
  if (stopped.length > 0) return { look: 'bad', text: `${plural(stopped.length, 'source')} stopped`, why: why(stopped) }
  const failed = views.filter((v) => v.kind === 'materialized' && v.state === 'stopped')
  if (failed.length > 0) return { look: 'bad', text: `${plural(failed.length, 'view')} stopped`, why: why(failed) }
  if (held.length > 0) return { look: 'warn', text: `${plural(held.length, 'source')} ${held.length === 1 ? 'waits' : 'wait'}`, why: why(held) }
  const text = status.state.toLowerCase().replaceAll('_', ' ')
  return { look: text === 'running' ? 'good' : 'warn', text, why: '' }
}

const why = (all: readonly { name: string; error?: string }[]) => all.map((p) => p.name + (p.error ? ': ' + p.error : '')).join('; ')

// troubleOf is the word that stands beside something in the catalogue in place of its figure, if any is due. What waits
// for its broker or topic has no error of its own.
export function troubleOf(p: { state: string; error?: string | undefined }): { look: 'warn' | 'bad'; text: string } | undefined {
  if (p.state === 'waiting') return { look: 'warn', text: 'waiting' }
  if (p.state === 'stopped') return { look: 'bad', text: 'stopped' }
  return p.error ? { look: 'bad', text: 'error' } : undefined
}
