// The editor's tabs. Every change of a draft is in the browser's storage at once, under a name of its own, so a reload,
// a crash or a second window loses nothing: other windows' changes come in by the storage event.

import { computed, signal } from '@preact/signals'
import { forget, load, save } from './prefs.ts'

// A tab's `version` rises when its text was changed by anything but its editor, which then has to show it.
export interface Tab { id: string; name: string; text: string; version: number }

interface Index { order: string[]; active: string; names: Record<string, string> }

export const tabs = signal<readonly Tab[]>([])
export const activeId = signal('')
export const unsaved = signal(false) // the storage refused the last draft
export const active = computed(() => tabs.value.find((t) => t.id === activeId.value))

export const randomId = () => crypto.getRandomValues(new Uint32Array(4)).reduce((s, n) => s + n.toString(16).padStart(8, '0'), '')

// firstVisit is true when there was nothing to restore: then there is one empty tab.
export const firstVisit = signal(false)

// openTabs restores the tabs.
export function openTabs() {
  window.addEventListener('storage', (e) => {
    if (e.key?.startsWith('weir.draft.') && e.newValue !== null) {
      const id = e.key.slice('weir.draft.'.length)
      if (id !== activeId.value || document.visibilityState === 'hidden') show(id, load('draft.' + id, ''))
    } else if (e.key === 'weir.tabs' && e.newValue !== null) adopt(load<Index | null>('tabs', null))
  })
  const index = load<Index | null>('tabs', null)
  adopt(index)
  if (tabs.value.length > 0) return
  firstVisit.value = true
  newTab('')
}

// newTab opens a tab with a text and goes to it.
export function newTab(text: string, name = freeName()) {
  const tab = { id: randomId(), name, text, version: 0 }
  tabs.value = [...tabs.value, tab]
  unsaved.value = !save('draft.' + tab.id, text)
  activeId.value = tab.id
  saveIndex()
}

// fill replaces the text of a tab from outside its editor.
export function fill(id: string, text: string) {
  show(id, text)
  unsaved.value = !save('draft.' + id, text)
}

// setText takes what the editor holds.
export function setText(id: string, text: string) {
  patch(id, { text })
  unsaved.value = !save('draft.' + id, text)
}

export function renameTab(id: string, name: string) {
  if (name.trim() !== '') patch(id, { name: name.trim().slice(0, 60) })
  saveIndex()
}

export function goTo(id: string) {
  activeId.value = id
  saveIndex()
}

// closeTab removes a tab and returns it, so that closing can be undone. The last tab is emptied instead.
export function closeTab(id: string): Tab | undefined {
  const i = tabs.value.findIndex((t) => t.id === id)
  const tab = tabs.value[i]
  if (!tab) return undefined
  tabs.value = tabs.value.filter((t) => t.id !== id)
  forget('draft.' + id)
  if (tabs.value.length === 0) newTab('')
  else if (activeId.value === id) activeId.value = tabs.value[Math.min(i, tabs.value.length - 1)]!.id
  saveIndex()
  return tab
}

function adopt(index: Index | null) {
  if (!index || !Array.isArray(index.order)) return
  const order = [...index.order]
  const here = active.peek()
  if (here && !order.includes(here.id) && document.visibilityState === 'visible') order.push(here.id) // closed elsewhere, in use here
  tabs.value = order.map((id) => ({
    id,
    name: 'Query',
    text: load('draft.' + id, ''),
    version: 0,
    ...tabs.value.find((t) => t.id === id),
    ...(index.names?.[id] && { name: index.names[id] }),
  }))
  if (!tabs.value.some((t) => t.id === activeId.value)) {
    activeId.value = tabs.value.some((t) => t.id === index.active) ? index.active : (tabs.value[0]?.id ?? '')
  }
}

function show(id: string, text: string) {
  const tab = tabs.value.find((t) => t.id === id)
  if (tab && tab.text !== text) patch(id, { text, version: tab.version + 1 })
}

function patch(id: string, change: Partial<Tab>) {
  tabs.value = tabs.value.map((t) => (t.id === id ? { ...t, ...change } : t))
}

function saveIndex() {
  const names = Object.fromEntries(tabs.value.map((t) => [t.id, t.name]))
  save('tabs', { order: tabs.value.map((t) => t.id), active: activeId.value, names } satisfies Index)
}

function freeName(): string {
  const used = new Set(tabs.value.map((t) => t.name))
  let n = 1
  while (used.has(`Query ${n}`)) n++
  return `Query ${n}`
}
