// Runs: what each tab asked for last, and what came back. A tab runs one statement at a time; a new one cancels the one
// before.

import { effect, signal, untracked, type Signal } from '@preact/signals'
import { ApiError, cancelSql, runSql, type Answer } from '../api/client.ts'
import { changes, keyColumns, type Change } from '../grid/changes.ts'
import { Live, type LiveState, type Outcome } from '../live/live.ts'
import { views, refresh } from './catalog.ts'
import { epoch, pollNow, sawEpoch, visible } from './connection.ts'
import { record } from './history.ts'
import { activeId, randomId } from './tabs.ts'
import { toast } from './toast.ts'

export interface Run {
  state: 'idle' | 'running' | 'done' | 'failed' | 'cancelled'
  sql: string
  from: number // where the statement began in the draft when it was run
  started: number
  answer?: Answer
  answered: number // Date.now() when it arrived
  error?: ApiError | undefined
  changes?: ReadonlyMap<number, Uint8Array> | undefined // against the answer before, while live
  live: boolean
}

const idle: Run = { state: 'idle', sql: '', from: 0, started: 0, answered: 0, live: false }
const runs = new Map<string, Signal<Run>>()
const inFlight = new Map<string, { id: string; abort: AbortController; quiet: boolean }>()

export const liveState = signal<LiveState>('off')
export const onQueryPage = signal(true)

export function runOf(tab: string): Signal<Run> {
  let s = runs.get(tab)
  if (!s) runs.set(tab, (s = signal(idle)))
  return s
}

export function dropRun(tab: string) {
  cancel(tab)
  runs.delete(tab)
}

// run starts a statement and returns when it has ended in any way.
export async function run(tab: string, sql: string, from: number): Promise<void> {
  const s = runOf(tab)
  stopRequest(tab)
  const keep = s.value.sql === sql ? s.value.answer : undefined
  const started = Date.now()
  const { answer: _, ...rest } = s.value
  const stays = rest.live && isRead(sql)
  s.value = { ...rest, ...(keep && { answer: keep }), state: 'running', sql, from, started, error: undefined, changes: undefined, live: stays }
  const got = await request(tab, sql, false)
  if (got === 'replaced') return
  if (got instanceof ApiError) {
    s.value = { ...s.value, state: 'failed', error: got, live: false }
    record({ sql, at: started, ms: Date.now() - started, error: got.message })
  } else {
    settle(s, got)
    pollNow() // the status tells how old this epoch's data is
    record({ sql, at: started, ms: got.ms, epoch: got.epoch, rows: got.rows.length })
    if (!isRead(sql)) void refresh()
  }
}

// cancel stops a tab's statement here and on the server. It reports whether one was running.
export function cancel(tab: string): boolean {
  const s = runOf(tab)
  if (s.value.state !== 'running') return false
  const f = inFlight.get(tab)
  if (f) cancelSql(f.id).catch((err: Error) => toast(`The server could not cancel it: ${err.message}`, true))
  stopRequest(tab)
  s.value = { ...s.value, state: 'cancelled', live: false }
  record({ sql: s.value.sql, at: s.value.started, ms: Date.now() - s.value.started, error: 'cancelled' })
  return true
}

// setLive turns the live re-run of a tab's statement on or off.
export function setLive(tab: string, on: boolean) {
  const s = runOf(tab)
  s.value = { ...s.value, live: on, ...(!on && { changes: undefined }) }
}

// isRead tells whether a statement only reads, so that running it again by itself is harmless.
export function isRead(sql: string): boolean {
  const word = /^(?:\s|\(|--[^\n]*\n|\/\*[\s\S]*?\*\/)*([a-z]+)/i.exec(sql)?.[1]?.toLowerCase() ?? ''
  return ['select', 'from', 'with', 'values', 'table', 'show', 'describe', 'summarize', 'pivot', 'unpivot'].includes(word)
}

function settle(s: Signal<Run>, answer: Answer, marks?: Run['changes']) {
  s.value = { ...s.value, state: 'done', answer, answered: Date.now(), error: undefined, changes: marks }
}

async function request(tab: string, sql: string, quiet: boolean): Promise<Answer | ApiError | 'replaced'> {
  const mine = { id: randomId(), abort: new AbortController(), quiet }
  inFlight.set(tab, mine)
  try {
    const got = await runSql({ sql, id: mine.id, signal: mine.abort.signal })
    return inFlight.get(tab) === mine ? got : 'replaced'
  } catch (err) {
    if (inFlight.get(tab) !== mine) return 'replaced'
    return err instanceof ApiError ? err : new ApiError(0, 'UNKNOWN', String(err))
  } finally {
    if (inFlight.get(tab) === mine) inFlight.delete(tab)
  }
}

function stopRequest(tab: string) {
  const f = inFlight.get(tab)
  inFlight.delete(tab)
  f?.abort.abort()
}

const live = new Live({
  now: () => performance.now(),
  changed: (state) => (liveState.value = state),
  run: async (): Promise<Outcome> => {
    const tab = activeId.peek()
    const s = runOf(tab)
    const { sql, answer: before } = s.peek()
    const start = performance.now()
    const got = await request(tab, sql, true)
    const ms = performance.now() - start
    if (got === 'replaced') return { ok: false, permanent: true, ms } // nobody waits for it any more
    if (got instanceof ApiError) {
      const permanent = !got.offline && got.status !== 429
      if (permanent) s.value = { ...s.value, state: 'failed', error: got, live: false }
      return { ok: false, permanent, ms }
    }
    const keys = keyColumns(sql, got.columns, views.peek() ?? [])
    settle(s, got, before ? changes(before, got, keys) : undefined)
    return { ok: true, epoch: got.epoch, ms: performance.now() - start } // comparing the answers counts too
  },
})

// watchLive ties the live re-run to the tab on screen, to the page's visibility and to the epochs that come in.
export function watchLive() {
  effect(() => live.setVisible(visible.value))
  let last = 0
  effect(() => {
    const e = epoch.value
    if (e < last) live.reset(e)
    else live.sawEpoch(e)
    last = e
  })

  let wanted = ''
  effect(() => {
    const tab = activeId.value
    const r = runOf(tab).value
    const want = onQueryPage.value && r.live && r.state !== 'running' ? tab + '\n' + r.sql : ''
    if (want === wanted) return
    wanted = want
    untracked(() => {
      for (const [other, f] of inFlight) if (f.quiet) stopRequest(other)
      if (want !== '') live.start(r.answer?.epoch ?? -1)
      else live.stop(r.error ? 'failed' : 'off')
    })
  })

  // The event stream holds one of the few connections a browser allows per origin: it is open only while it is of use.
  let events: EventSource | undefined
  effect(() => {
    const use = visible.value && onQueryPage.value && runOf(activeId.value).value.live
    if (use && !events) {
      events = new EventSource('/api/v1/events')
      events.addEventListener('epoch', (e) => {
        try {
          sawEpoch(JSON.parse((e as MessageEvent<string>).data) as { epoch: number; committed: string | null })
        } catch {
          // the poll of the status tells the same, later
        }
      })
    } else if (!use && events) {
      events.close()
      events = undefined
    }
  })
}

export type { Change }
