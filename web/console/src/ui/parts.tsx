// Small parts that every page uses. Text goes in as text; nothing here takes HTML.

import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { ComponentChildren, JSX } from 'preact'
import type { State } from '../api/types.ts'
import { readOnly } from '../store/connection.ts'
import { toast } from '../store/toast.ts'
import { visible } from '../grid/text.ts'

type Children = { children?: ComponentChildren }

// useReveal scrolls a part that has just opened into view when little of it can be seen.
export function useReveal() {
  const box = useRef<HTMLElement>(null)
  useEffect(() => {
    const { top } = box.current!.getBoundingClientRect()
    if (top > window.innerHeight * 0.6) box.current!.scrollIntoView({ block: 'start' })
  }, [])
  return box
}

// Icon draws one of the paths below, 16 by 16.
export function Icon({ name }: { name: keyof typeof paths }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  )
}

const paths = {
  play: 'M4.5 2.8v10.4L13 8z',
  stop: 'M4 4h8v8H4z',
  plus: 'M8 3v10M3 8h10',
  close: 'M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6',
  copy: 'M5.5 5.5h7v8h-7zM3.5 10.5v-8h7',
  down: 'M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10',
  clock: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.4',
  link: 'M6.8 9.2l2.6-2.6M7 4.8l1.4-1.4a2.8 2.8 0 0 1 4 4L11 8.8M9 11.2l-1.4 1.4a2.8 2.8 0 0 1-4-4L5 7.2',
  right: 'M6 3.5L10.5 8 6 12.5',
  sun: 'M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1',
  moon: 'M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z',
  auto: 'M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11',
  help: 'M6 6.1a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.2v.3M8 11.8v.4M8 1.8a6.2 6.2 0 1 0 0 12.4 6.2 6.2 0 0 0 0-12.4z',
  table: 'M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6',
  chart: 'M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6',
  side: 'M2.5 3h11v10h-11zM6.5 3v10',
  search: 'M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM10.2 10.2l3 3',
}

type ButtonProps = Children & Omit<JSX.IntrinsicElements['button'], 'ref' | 'icon'> & { look?: 'primary' | 'danger' | 'quiet'; icon?: keyof typeof paths }

export function Button({ look, icon, children, class: extra, ...rest }: ButtonProps) {
  return (
    <button type="button" class={`button ${look ?? ''} ${children ? '' : 'square'} ${(extra as string) ?? ''}`} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

export function Switch(p: { label: string; on: boolean; disabled?: boolean; title?: string; change(on: boolean): void }) {
  return (
    <button type="button" role="switch" class="switch" aria-checked={p.on} disabled={p.disabled} title={p.title} onClick={() => p.change(!p.on)}>
      <span class="track"><span class="knob" /></span>
      {p.label}
    </button>
  )
}

// Menu is a button that opens a list of actions. Arrow keys move, Escape closes.
export function Menu(p: Children & { label: string; icon?: keyof typeof paths; disabled?: boolean; items: { name: string; note?: string; act(): void }[] }) {
  const [open, setOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const id = useId()
  useEffect(() => {
    if (!open) return
    box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const away = (e: Event) => {
      if (!box.current?.contains(e.target as Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', away)
    return () => document.removeEventListener('pointerdown', away)
  }, [open])
  const close = () => {
    setOpen(false)
    box.current?.querySelector('button')?.focus()
  }
  const key = (e: KeyboardEvent) => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
    const i = all.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: -1 }[e.key]
    if (to !== undefined) all.at(to % all.length)?.focus()
    else if (e.key === 'Escape') close()
    else {
      if (e.key === 'Tab') setOpen(false)
      return
    }
    e.preventDefault()
    e.stopPropagation()
  }
  return (
    <div class="menu" ref={box}>
      <Button look="quiet" icon={p.icon} disabled={p.disabled} aria-haspopup="menu" aria-expanded={open} aria-controls={open ? id : undefined} onClick={() => setOpen(!open)}>
        {p.label}
      </Button>
      {open && (
        <div class="menu-list" role="menu" id={id} aria-label={p.label} onKeyDown={key}>
          {p.items.map((item) => (
            <button key={item.name} type="button" role="menuitem" tabIndex={-1} onClick={() => { close(); item.act() }}>
              {item.name}
              {item.note && <small>{item.note}</small>}
            </button>
          ))}
        </div>
      )}
    </div>
  )
}

// Dialog is the browser's own modal dialog: it keeps the focus, and Escape closes it. It opens with the focus on what in
// it has data-first, if anything has.
export function Dialog(p: Children & { title: string; wide?: boolean; close(): void }) {
  const box = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const d = box.current!
    if (!d.open) d.showModal()
    d.querySelector<HTMLElement>('[data-first]')?.focus()
  }, [])
  return (
    <dialog ref={box} class={p.wide ? 'wide' : ''} aria-labelledby={id} onClose={p.close} onClick={(e) => e.target === box.current && box.current!.close()}>
      <div class="dialog-head">
        <h2 id={id}>{p.title}</h2>
        <Button look="quiet" icon="close" aria-label="Close" onClick={() => box.current!.close()} />
      </div>
      <div class="dialog-body" tabIndex={0} role="group" aria-labelledby={id}>{p.children}</div>
    </dialog>
  )
}

// Mark is Weir's sign: water that steps down.
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect class="mark-ground" width="32" height="32" rx="7" />
      <path class="mark-front" d="M5 9.5h9.2c2.4 0 3.4 1.2 3.6 3.4l.5 5.6c.2 2.4 1.4 3.6 3.8 3.6H27" />
      <path class="mark-back" d="M5 15.5h7.2M5 21.5h8.4" />
    </svg>
  )
}

// Empty says what is missing and what to do about it.
export function Empty({ title, children }: Children & { title: string }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

const words: Record<string, string> = {
  running: 'running', backfilling: 'backfilling', waiting: 'waiting', idle: 'idle', stopped: 'stopped',
}

export function StateBadge({ state, error }: { state: State | string; error?: string | undefined }) {
  if (readOnly.value !== '') return <span class="badge">not read</span>
  const look = state === 'waiting' ? 'warn' : error || state === 'stopped' ? 'bad' : state === 'running' ? 'good' : state === 'idle' ? '' : 'warn'
  return <span class={`badge ${look}`}><span class="dot" />{words[state] ?? visible(String(state))}</span>
}

// Spark is the shape of recent values; the numbers beside it say the rest.
export function Spark({ values }: { values: readonly number[] }) {
  if (values.length < 2) return <svg class="spark" aria-hidden="true" />
  const top = Math.max(...values, 1e-9)
  const step = 80 / (values.length - 1)
  const line = values.map((v, i) => `${(i * step).toFixed(1)},${(18.5 - (v / top) * 16).toFixed(1)}`).join(' ')
  return (
    <svg class="spark" viewBox="0 0 80 20" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,20 ${line} 80,20`} />
      <polyline points={line} />
    </svg>
  )
}

// SqlText shows SQL in the editor's colours once the editor has been loaded.
export function SqlText({ sql }: { sql: string }) {
  const [pieces, setPieces] = useState<[string, string][]>([])
  useEffect(() => {
    let stale = false
    void import('../sql/editor.ts').then(({ paint }) => {
      const out: [string, string][] = []
      paint(sql, (text, classes) => out.push([text, classes]))
      if (!stale) setPieces(out)
    })
    return () => void (stale = true)
  }, [sql])
  const same = pieces.map((p) => p[0]).join('') === sql
  return (
    <pre class="sql" tabIndex={0} role="group" aria-label="SQL">
      {same ? pieces.map(([text, classes]) => (classes ? <span class={classes}>{visible(text, '\n\t')}</span> : visible(text, '\n\t'))) : visible(sql, '\n\t')}
    </pre>
  )
}

export async function copy(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text)
    toast(`Copied ${what}`)
  } catch {
    // Without the clipboard API (plain HTTP off loopback) the browser's own copy of a selection still works.
    const area = document.createElement('textarea')
    area.value = text
    area.className = 'off-screen'
    const focused = document.activeElement as HTMLElement | null
    document.body.append(area)
    area.select()
    const done = document.execCommand('copy')
    area.remove()
    focused?.focus()
    toast(done ? `Copied ${what}` : 'The browser refused to copy', !done)
  }
}
