// The appliance as this page last heard of it: once a second while the page is visible.

import { computed, signal } from '@preact/signals'
import { ApiError, getStatus, login } from '../api/client.ts'
import type { EpochEvent, Status } from '../api/types.ts'
import { Commits } from './commits.ts'

export const status = signal<Status | undefined>(undefined)
export const rates = signal<readonly number[]>([]) // records per second, oldest first, one per poll
export const heard = signal(0) // Date.now() of the last answer, 0 before the first
export const failures = signal(0) // polls that failed in a row
export const retryAt = signal(0)
export const loginNeeded = signal(false)
export const now = signal(Date.now()) // moves once a second, for ages on screen
export const visible = signal(document.visibilityState !== 'hidden')

export const online = computed(() => failures.value < 2)
// readOnly names the checkpoint that weir open shows: nothing is counted, and nothing can be changed. '' for an appliance.
export const readOnly = computed(() => status.value?.read_only ?? '')
export const epoch = computed(() => status.value?.epoch ?? 0)

export const commits = new Commits()

// dataAge is how old the newest committed data is, in milliseconds, or undefined before the first answer.
export const dataAge = computed(() => {
  const at = Date.parse(status.value?.committed ?? '')
  if (!(at > 0)) return undefined // nothing was committed yet, or nobody knows when
  return Math.max(0, (online.value ? heard.value : now.value) - commits.skew - at)
})

const every = 1000
const maxRetry = 10_000
let timer: ReturnType<typeof setTimeout> | undefined
let polling = false

// watch begins polling. It goes on for the life of the page.
export function watch() {
  document.addEventListener('visibilitychange', () => {
    visible.value = document.visibilityState !== 'hidden'
    if (visible.value) pollNow()
  })
  window.addEventListener('online', pollNow)
  setInterval(() => (now.value = Date.now()), 1000)
  pollNow()
}

export function pollNow() {
  clearTimeout(timer)
  void poll()
}

async function poll() {
  if (polling || loginNeeded.value) return
  polling = true
  try {
    const { status: s, serverTime } = await getStatus(AbortSignal.timeout(8000))
    commits.measure(serverTime, Date.now())
    const before = status.value
    const restarted = before !== undefined && s.uptime_s < before.uptime_s
    if (restarted) commits.forget()
    commits.saw(s.epoch, Date.parse(s.committed ?? ''))
    // An answer may be overtaken by an event: epochs go back only when the server was started anew.
    const overtaken = before !== undefined && !restarted && s.epoch < before.epoch
    status.value = overtaken ? { ...s, epoch: before.epoch, committed: before.committed } : s
    rates.value = [...rates.value.slice(-59), s.rate]
    heard.value = now.value = Date.now()
    failures.value = 0
  } catch (err) {
    if (err instanceof ApiError && err.status === 401) loginNeeded.value = true
    else failures.value++
  } finally {
    polling = false
  }
  const pause = failures.value < 2 ? every : Math.min(maxRetry, every * 2 ** (failures.value - 1)) * (0.8 + 0.4 * Math.random())
  retryAt.value = Date.now() + pause
  if (visible.value) timer = setTimeout(pollNow, pause)
}

// sawEpoch takes an epoch that came by the event stream, ahead of the next poll.
export function sawEpoch(e: EpochEvent) {
  commits.saw(e.epoch, Date.parse(e.committed ?? ''))
  const s = status.value
  if (s && e.epoch > s.epoch) {
    status.value = { ...s, epoch: e.epoch, committed: e.committed }
    heard.value = Date.now()
  }
}

// signIn trades a token for the session cookie.
export async function signIn(token: string) {
  await login(token)
  loginNeeded.value = false
  pollNow()
}
