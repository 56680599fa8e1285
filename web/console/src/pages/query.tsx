// The query page: catalogue, tabs, editor, and what the last run of the tab answered.

import { useEffect, useRef, useState } from 'preact/hooks'
import { effect } from '@preact/signals'
import { sources, views } from '../store/catalog.ts'
import { load, save } from '../store/prefs.ts'
import { dropSql, route, sqlLink } from '../store/route.ts'
import { cancel, dropRun, isRead, liveState, run, runOf, setLive, type Run } from '../store/runs.ts'
import { active, activeId, closeTab, fill, firstVisit, goTo, newTab, renameTab, setText, tabs, unsaved } from '../store/tabs.ts'
import { online, readOnly, status } from '../store/connection.ts'
import { duration, plural } from '../ui/format.ts'
import { byteToIndex } from '../sql/split.ts'
import { firstQuery } from '../sql/examples.ts'
import type { Relation } from '../sql/suggest.ts'
import type { Editor } from '../sql/editor.ts'
import { toast } from '../store/toast.ts'
import { Button, copy, Switch } from '../ui/parts.tsx'
import { visible } from '../grid/text.ts'
import { Catalog } from './catalog.tsx'
import { History } from './history.tsx'
import { Result } from './result.tsx'

export function QueryPage() {
  const editor = useRef<Editor | undefined>(undefined)
  const host = useRef<HTMLDivElement>(null)
  const [ready, setReady] = useState(false)
  const [side, setSide] = useState(() => load('side', window.innerWidth > 900))
  const [history, setHistory] = useState(false)
  const [height, setHeight] = useState(() => load('editor-height', 240))
  const tab = active.value
  const current = runOf(activeId.value).value

  // Several statements run one after the other, up to the first that does not succeed.
  const start = async () => {
    const tab = activeId.peek()
    editor.current?.unmark()
    for (const { sql, from } of editor.current?.chosen() ?? []) {
      await run(tab, sql, from)
      if (runOf(tab).peek().state !== 'done') break
    }
  }
  const live = (on: boolean) => {
    const r = runOf(activeId.peek()).peek()
    if (on && (r.state === 'idle' || r.state === 'failed' || r.state === 'cancelled')) {
      const chosen = editor.current?.chosen()[0]
      if (!chosen || !isRead(chosen.sql)) return toast('Live runs a SELECT again and again; there is none at the cursor', true)
      void start()
    }
    setLive(activeId.peek(), on)
  }

  useEffect(() => {
    let made: Editor | undefined
    let gone = false
    void import('../sql/editor.ts').then(({ Editor }) => {
      if (gone) return
      editor.current = made = new Editor(host.current!, {
        changed: setText,
        run: () => void start(),
        cancel: () => cancel(activeId.peek()),
        catalog: relations,
      })
      setReady(true)
    })
    return () => {
      gone = true
      made?.destroy()
    }
  }, [])

  // The tab on screen, and the error of its last run, are shown in the editor.
  useEffect(() => {
    if (ready && tab) editor.current!.show(tab.id, tab.text)
  }, [ready, tab?.id, tab?.version])
  useEffect(() => {
    const place = errorIndex(current)
    if (ready && place !== undefined) editor.current!.mark(place, visible(current.error!.message, '\n'))
  }, [ready, current.error, tab?.id])

  // A link with SQL opens in a tab of its own. It runs when the user says so.
  const { sql } = route.value
  useEffect(() => {
    if (sql === '') return
    newTab(sql)
    dropSql()
  }, [sql])

  // At a first visit the editor is filled once the catalogue is known.
  useEffect(() => effect(() => {
    if (!firstVisit.value || !views.value || !sources.value || !status.value) return
    firstVisit.value = false
    const t = active.peek()
    if (t && t.text === '') fill(t.id, firstQuery(views.value, sources.value, readOnly.value !== ''))
  }), [])

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key !== 'Escape' || e.defaultPrevented || document.querySelector('dialog[open], [role=menu]')) return
      if (cancel(activeId.peek())) e.preventDefault()
    }
    document.addEventListener('keydown', key)
    return () => document.removeEventListener('keydown', key)
  }, [])

  const open = (text: string, runIt: boolean) => {
    newTab(text)
    if (runIt) void run(activeId.peek(), text.trim().replace(/;\s*$/, ''), 0)
  }

  const running = current.state === 'running'
  return (
    <div class="query">
      <h1 class="off-screen">Query</h1>
      <p class="off-screen" role="status">{spoken(current)}</p>
      {side && <Catalog insert={(t) => editor.current?.insert(t)} open={open} />}
      <div class="work">
        <TabStrip side={side} toggleSide={() => { setSide(!side); save('side', !side) }} closed={(id) => { editor.current?.forget(id); dropRun(id) }} />
        <div class="editor" style={{ height: `${height}px` }} ref={host} role="tabpanel" id="editor-panel" aria-label={`Editor, ${tab?.name ?? ''}`} />
        <Splitter height={height} set={(h) => { setHeight(h); save('editor-height', h) }} />
        <div class="toolbar" role="toolbar" aria-label="Run">
          {running
            ? <Button look="danger" icon="stop" onClick={() => cancel(activeId.peek())}>Cancel <kbd>Esc</kbd></Button>
            : <Button look="primary" icon="play" disabled={!ready} onClick={() => void start()}>Run <kbd>{modifier} ↵</kbd></Button>}
          {readOnly.value === '' && <Switch label="Live" on={current.live} change={live} title="Run again on every commit of new data" disabled={!current.live && current.state === 'done' && !isRead(current.sql)} />}
          <span class="live-note">{current.live ? liveNote(current.answer?.ms ?? 0) : ''}</span>
          <span class="gap" />
          {unsaved.value && <span class="warn-text">This browser keeps no drafts: its storage is full or off</span>}
          <Button look="quiet" icon="clock" aria-expanded={history} onClick={() => setHistory(true)}>History</Button>
          <Button look="quiet" icon="link" onClick={() => copy(sqlLink(active.peek()?.text ?? ''), 'a link that opens this query')}>Link</Button>
        </div>
        <Result run={current} tab={activeId.value} open={open} goTo={(i) => editor.current?.goTo(i)} place={(i) => editor.current?.place(i)} />
      </div>
      {history && <History close={() => setHistory(false)} open={(t) => open(t, false)} />}
    </div>
  )
}

const modifier = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl'

// spoken is what a screen reader hears of a run. Live re-runs are silent.
function spoken(r: Run): string {
  if (r.live || r.state === 'idle') return ''
  if (r.state === 'done' && r.answer) return `${plural(r.answer.rows.length, 'row')} in ${duration(r.answer.ms)}`
  return r.state
}

// liveNote says how live it is. It does not flicker with every run.
function liveNote(ms: number): string {
  if (!online.value) return 'waiting for the connection'
  if (liveState.value === 'off' || liveState.value === 'failed') return ''
  return ms * 5 < 1000 ? 'runs again on every commit' : `a run takes ${duration(ms)}, so one every ${duration(ms * 5)}`
}

// errorIndex is where in the draft the error of a run is, if the server knew.
export function errorIndex(r: { sql: string; from: number; error?: { position?: number | undefined } | undefined }): number | undefined {
  return r.error?.position === undefined ? undefined : r.from + byteToIndex(r.sql, r.error.position)
}

function relations(): Relation[] {
  return [
    ...(views.peek() ?? []).map((v) => ({ name: v.name, kind: v.kind, columns: v.columns })),
    ...(sources.peek() ?? []).map((s) => ({ name: s.name, kind: 'source' as const, columns: s.columns })),
  ]
}

function TabStrip({ side, toggleSide, closed }: { side: boolean; toggleSide(): void; closed(id: string): void }) {
  const [renaming, setRenaming] = useState('')
  const list = useRef<HTMLDivElement>(null)
  const close = (id: string) => {
    const tab = closeTab(id)
    closed(id)
    if (tab && tab.text.trim() !== '') toast(`Closed ${tab.name}`, false, { name: 'Undo', act: () => newTab(tab.text, tab.name) })
  }
  const key = (e: KeyboardEvent) => {
    if (renaming !== '') return
    const i = tabs.value.findIndex((t) => t.id === activeId.value)
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[e.key]
    if (to !== undefined) goTo(tabs.value.at(to % tabs.value.length)!.id)
    else if (e.key === 'Delete') close(activeId.value)
    else if (e.key === 'F2') setRenaming(activeId.value)
    else return
    e.preventDefault()
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>('[aria-selected=true]')?.focus())
  }
  return (
    <div class="tabs">
      <Button look="quiet" icon="side" aria-label="Catalogue" aria-pressed={side} title="Catalogue" onClick={toggleSide} />
      <div class="tab-list" role="tablist" aria-label="Queries" ref={list} onKeyDown={key}>
        {tabs.value.map((t) => (
          <button key={t.id} type="button" role="tab" class="tab" id={`tab-${t.id}`} aria-selected={t.id === activeId.value} aria-controls="editor-panel" tabIndex={t.id === activeId.value ? 0 : -1}
            title="Double-click or F2 to rename, Delete to close" onClick={() => goTo(t.id)} onDblClick={() => setRenaming(t.id)} onAuxClick={(e) => e.button === 1 && close(t.id)}>
            {visible(t.name)}
            {runOf(t.id).value.state === 'running' && <span class="busy" aria-label="running" />}
          </button>
        ))}
      </div>
      <Button look="quiet" icon="plus" aria-label="New query" title="New query" onClick={() => newTab('')} />
      <span class="gap" />
      <Button look="quiet" onClick={() => setRenaming(activeId.value)}>Rename</Button>
      <Button look="quiet" onClick={() => close(activeId.value)}>Close</Button>
      {renaming !== '' && <Rename id={renaming} done={() => setRenaming('')} />}
    </div>
  )
}

function Rename({ id, done }: { id: string; done(): void }) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.select(), [])
  const keep = () => {
    renameTab(id, input.current?.value ?? '')
    done()
  }
  return (
    <form class="rename" onSubmit={(e) => { e.preventDefault(); keep() }}>
      <input ref={input} aria-label="Name of the query" defaultValue={tabs.value.find((t) => t.id === id)?.name} onBlur={keep} onKeyDown={(e) => e.key === 'Escape' && (e.preventDefault(), done())} />
    </form>
  )
}

// Splitter sets the editor's height by mouse or arrow keys.
function Splitter({ height, set }: { height: number; set(h: number): void }) {
  const limit = (h: number) => Math.max(80, Math.min(window.innerHeight - 260, Math.round(h)))
  const drag = (e: PointerEvent) => {
    e.preventDefault()
    const start = height - e.clientY
    const moved = (m: PointerEvent) => set(limit(start + m.clientY))
    const up = () => {
      window.removeEventListener('pointermove', moved)
      window.removeEventListener('pointerup', up)
    }
    window.addEventListener('pointermove', moved)
    window.addEventListener('pointerup', up)
  }
  const key = (e: KeyboardEvent) => {
    const by = { ArrowUp: -24, ArrowDown: 24 }[e.key]
    if (by === undefined) return
    e.preventDefault()
    set(limit(height + by))
  }
  return (
    <div class="splitter" role="separator" tabIndex={0} aria-orientation="horizontal" aria-label="Height of the editor" aria-valuenow={height} aria-valuemin={80} aria-valuemax={Math.max(80, window.innerHeight - 260)} onPointerDown={drag} onKeyDown={key} />
  )
}
