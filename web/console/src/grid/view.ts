// The grid's elements: a pool of rows and cells that is as large as the screen, moved and refilled on scroll. Only text
// nodes carry data. The grid itself has the focus; aria-activedescendant names the cell.

import type { Json } from '../api/json.ts'
import type { Column } from '../api/types.ts'
import { Change } from './changes.ts'
import { tsv } from './copy.ts'
import { el, newCell, newRow, px, Ruler, type RowParts } from './elements.ts'
import { at, clamp, isSingle, move, rectangle, type Selection } from './selection.ts'
import { kindOf, show, visible, type Kind } from './text.ts'
import { rowHeight, Viewport } from './viewport.ts'

export interface Data {
  columns: readonly Column[]
  rows: readonly Json[][]
  order?: Uint32Array | undefined // row numbers in the order shown
  sort?: { column: number; descending: boolean } | undefined
  keys?: readonly number[]
}

export interface Events {
  selected(s: Selection | undefined): void
  open(row: number, column: number): void // row as in `rows`
  sort(column: number): void
}

const headHeight = 42
const minWidth = 56
const maxWidth = 420
const flashTime = 1400

export class GridView {
  selection: Selection | undefined
  private data: Data = { columns: [], rows: [] }
  private kinds: Kind[] = []
  private widths: number[] = []
  private left: number[] = [] // left edges, and the total at the end
  private gutter = 40
  private marks: ReadonlyMap<number, Uint8Array> | undefined
  private flash = 0
  private flashTimer: ReturnType<typeof setTimeout> | undefined
  private frame = 0
  private readonly rows: RowParts[] = []
  private heads: HTMLElement[] = []
  private readonly head = el('div', 'grid-head', 'rowgroup')
  private readonly headRow = el('div', 'grid-row', 'row')
  private readonly body = el('div', 'grid-body', 'rowgroup')
  private readonly resize = new ResizeObserver(() => this.draw())
  private readonly ruler: Ruler

  constructor(private readonly host: HTMLElement, private readonly events: Events) {
    this.ruler = new Ruler(host)
    host.tabIndex = 0
    host.setAttribute('role', 'grid')
    host.setAttribute('aria-multiselectable', 'true')
    this.headRow.setAttribute('aria-rowindex', '1')
    this.head.append(this.headRow)
    host.replaceChildren(this.head, this.body)
    host.addEventListener('scroll', () => this.schedule(), { passive: true })
    host.addEventListener('keydown', (e) => this.key(e))
    host.addEventListener('copy', (e) => this.copy(e))
    host.addEventListener('focus', () => {
      if (!this.selection && this.data.columns.length > 0) this.select(at(this.data.rows.length > 0 ? 0 : -1, 0))
    })
    this.body.addEventListener('pointerdown', (e) => this.press(e))
    this.body.addEventListener('dblclick', (e) => {
      const hit = this.hit(e)
      if (hit && hit.column >= 0) this.events.open(this.source(hit.row), hit.column)
    })
    this.resize.observe(host)
  }

  destroy() {
    this.resize.disconnect()
    cancelAnimationFrame(this.frame)
    clearTimeout(this.flashTimer)
  }

  // show replaces the data. With marks, the same table goes on: place and selection stay, changed cells flash.
  show(data: Data, marks?: ReadonlyMap<number, Uint8Array>) {
    const same = sameColumns(this.data.columns, data.columns)
    this.data = data
    if (!same) {
      this.kinds = data.columns.map((c) => kindOf(c.type))
      this.widths = []
      this.selection = undefined
      this.host.scrollTo(0, 0)
    }
    this.measure()
    this.drawHead()
    if (this.selection) this.selection = clamp(this.selection, this.size())
    this.mark(marks)
    this.host.setAttribute('aria-rowcount', String(data.rows.length + 1))
    this.host.setAttribute('aria-colcount', String(data.columns.length + 1))
    this.draw()
    this.events.selected(this.selection)
  }

  // selectedTsv is the selection, or everything with a header line.
  selectedTsv(all: boolean): string {
    const r = all || !this.selection
      ? { top: 0, left: 0, bottom: this.data.rows.length - 1, right: this.data.columns.length - 1 }
      : rectangle(this.selection)
    return tsv(this.data.columns, (i) => this.data.rows[this.source(i)] ?? [], { ...r, top: Math.max(0, r.top) }, all)
  }

  private source(row: number): number {
    return this.data.order?.[row] ?? row
  }

  private size() {
    return { rows: this.data.rows.length, columns: this.data.columns.length, page: this.viewport().page }
  }

  private viewport() {
    return new Viewport(this.data.rows.length, Math.max(rowHeight, this.host.clientHeight - headHeight))
  }

  private mark(marks: ReadonlyMap<number, Uint8Array> | undefined) {
    this.marks = marks
    clearTimeout(this.flashTimer)
    if (!marks || marks.size === 0) return
    this.flash ^= 1
    this.flashTimer = setTimeout(() => {
      this.marks = undefined
      this.draw()
    }, flashTime)
  }

  // measure fits the columns to their longest texts among the first rows. Columns only grow while a table goes on.
  private measure() {
    const { columns, rows } = this.data
    this.widths = columns.map((_, i) => Math.max(this.widths[i] ?? 0, Math.min(maxWidth, this.fit(i))))
    this.gutter = Math.max(40, String(rows.length).length * 8 + 20)
    this.place()
  }

  // fit is the width that a column needs for its name and its longest text among the first and last rows.
  private fit(column: number): number {
    const { columns, rows } = this.data
    const c = columns[column]!
    const sample = rows.length > 300 ? [...rows.slice(0, 250), ...rows.slice(-50)] : rows
    let longest = ''
    for (const row of sample) {
      const { text } = show(row[column], c.type)
      if (text.length > longest.length) longest = text
    }
    const wide = Math.max(this.ruler.width(longest), this.ruler.width(visible(c.name)) + 18, this.ruler.width(c.type) * 0.86)
    return Math.max(minWidth, Math.ceil(wide) + 26)
  }

  private place() {
    this.left = [this.gutter]
    for (const w of this.widths) this.left.push(this.left.at(-1)! + w)
  }

  private setWidth(column: number, width: number) {
    this.widths[column] = Math.max(minWidth, Math.min(1600, width))
    this.place()
    this.drawHead()
    this.draw()
  }

  private schedule() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw())
  }

  private drawHead() {
    const { columns, sort, keys } = this.data
    const corner = el('div', 'grid-number', 'columnheader', '#')
    corner.setAttribute('aria-colindex', '1')
    corner.setAttribute('aria-label', 'Row')
    corner.style.width = px(this.gutter)
    corner.title = 'Select all'
    corner.addEventListener('click', () => this.select({ anchorRow: 0, anchorColumn: 0, row: this.data.rows.length - 1, column: columns.length - 1 }))
    this.heads = columns.map((c, i) => {
      const cell = el('div', `grid-cell ${this.kinds[i]}`, 'columnheader')
      const sorted = sort?.column === i ? (sort.descending ? 'descending' : 'ascending') : undefined
      cell.setAttribute('aria-colindex', String(i + 2))
      if (sorted) cell.setAttribute('aria-sort', sorted)
      cell.style.left = px(this.left[i]!)
      cell.style.width = px(this.widths[i]!)
      cell.title = `${visible(c.name)} ${c.type}${keys?.includes(i) ? ', key' : ''}`
      const name = el('span', 'grid-name', '', visible(c.name))
      if (keys?.includes(i)) name.classList.add('key')
      if (sorted) name.append(el('span', 'grid-sort', '', sorted === 'ascending' ? ' ↑' : ' ↓'))
      const grip = el('span', 'grid-grip')
      grip.addEventListener('pointerdown', (e) => this.drag(e, i))
      grip.addEventListener('click', (e) => e.stopPropagation())
      cell.append(name, el('span', 'grid-type', '', c.type), grip)
      cell.addEventListener('click', () => {
        this.host.focus()
        this.select(at(-1, i))
        this.events.sort(i)
      })
      return cell
    })
    this.headRow.replaceChildren(corner, ...this.heads)
  }

  private draw() {
    this.frame = 0
    const view = this.viewport()
    const total = this.left.at(-1) ?? 0
    const wide = Math.max(total, this.host.clientWidth)
    this.head.style.width = this.body.style.width = px(wide)
    this.body.style.height = px(view.content)
    const { first, last, y } = view.window(this.host.scrollTop)
    const [from, to] = this.columnsOnScreen()
    while (this.rows.length < last - first) this.rows.push(newRow(this.body))
    this.host.removeAttribute('aria-activedescendant')
    this.rows.forEach((row, i) => {
      const shown = first + i < last
      row.el.hidden = !shown
      if (shown) this.drawRow(row, first + i, y + i * rowHeight, from, to)
    })
    this.drawHeadSelection()
  }

  private drawRow(parts: RowParts, row: number, y: number, from: number, to: number) {
    const s = this.selection
    const box = s && rectangle(s)
    const source = this.source(row)
    const values = this.data.rows[source]!
    const marks = this.marks?.get(source)
    const inRow = box !== undefined && row >= box.top && row <= box.bottom
    parts.row = row
    parts.el.style.transform = `translateY(${y}px)`
    parts.el.setAttribute('aria-rowindex', String(row + 2))
    parts.el.classList.toggle('odd', row % 2 === 1)
    parts.number.textContent = String(row + 1)
    parts.number.style.width = px(this.gutter)
    parts.number.classList.toggle('active', inRow)
    while (parts.cells.length < to - from) parts.cells.push(newCell(parts.el))
    parts.cells.forEach((cell, k) => {
      const column = from + k
      if (column >= to) {
        cell.el.hidden = true
        return
      }
      const shown = show(values[column], this.data.columns[column]!.type)
      const mark = marks?.[column] ?? Change.None
      const active = s !== undefined && s.row === row && s.column === column
      const selected = inRow && column >= box!.left && column <= box!.right
      const look = `grid-cell ${this.kinds[column]} ${shown.look}${active ? ' active' : ''}${selected ? ' selected' : ''}${
        mark === Change.None ? '' : ` ${changeClass[mark]} flash-${this.flash}`}`
      if (cell.text.data !== shown.text) cell.text.data = shown.text
      if (cell.look !== look) cell.el.className = cell.look = look
      cell.el.hidden = false
      cell.el.style.left = px(this.left[column]!)
      cell.el.style.width = px(this.widths[column]!)
      cell.column = column
      cell.el.setAttribute('aria-colindex', String(column + 2))
      cell.el.setAttribute('aria-selected', String(selected))
      this.name(cell.el, active)
    })
  }

  private drawHeadSelection() {
    const s = this.selection
    const box = s && rectangle(s)
    this.heads.forEach((h, i) => {
      h.classList.toggle('active', s?.row === -1 && s.column === i)
      h.classList.toggle('in', box !== undefined && i >= box.left && i <= box.right)
      this.name(h, s?.row === -1 && s.column === i)
    })
  }

  // name gives the active cell the id that the grid refers to.
  private name(cell: HTMLElement, active: boolean) {
    const id = this.host.id + '-active'
    if (active) {
      cell.id = id
      this.host.setAttribute('aria-activedescendant', id)
    } else if (cell.id !== '') cell.removeAttribute('id')
  }

  private columnsOnScreen(): [number, number] {
    const n = this.data.columns.length
    const left = this.host.scrollLeft
    const right = left + this.host.clientWidth
    let from = 0
    while (from < n && this.left[from + 1]! <= left) from++
    let to = from
    while (to < n && this.left[to]! < right) to++
    return [from, to]
  }

  private select(s: Selection | undefined) {
    this.selection = s
    this.draw()
    this.events.selected(s)
  }

  private reveal(s: Selection) {
    if (s.row >= 0) this.host.scrollTop = this.viewport().reveal(s.row, this.host.scrollTop)
    const left = this.left[s.column]!
    const right = this.left[s.column + 1]!
    if (left - this.gutter < this.host.scrollLeft) this.host.scrollLeft = left - this.gutter
    else if (right > this.host.scrollLeft + this.host.clientWidth) this.host.scrollLeft = right - this.host.clientWidth
  }

  private key(e: KeyboardEvent) {
    const s = this.selection
    if (!s || this.data.columns.length === 0) return
    if (e.altKey && s.row === -1 && (e.key === 'ArrowLeft' || e.key === 'ArrowRight')) {
      this.setWidth(s.column, this.widths[s.column]! + (e.key === 'ArrowLeft' ? -16 : 16))
    } else if (e.key === 'Enter' && s.row === -1) {
      this.events.sort(s.column)
    } else if (e.key === 'Enter') {
      this.events.open(this.source(s.row), s.column)
    } else {
      const to = e.altKey ? undefined : move(s, { key: e.key, shift: e.shiftKey, ctrl: e.ctrlKey || e.metaKey }, this.size())
      if (!to) return
      if (e.key.toLowerCase() !== 'a') this.reveal(to)
      this.select(to)
    }
    e.preventDefault()
    e.stopPropagation()
  }

  private copy(e: ClipboardEvent) {
    if (!this.selection || !e.clipboardData) return
    e.clipboardData.setData('text/plain', this.selection.row === -1 && isSingle(this.selection)
      ? this.data.columns[this.selection.column]!.name
      : this.selectedTsv(false))
    e.preventDefault()
  }

  private hit(e: Event): { row: number; column: number } | undefined {
    const target = e.target as HTMLElement
    const row = this.rows.find((r) => r.el.contains(target))
    if (!row) return undefined
    return { row: row.row, column: row.cells.find((c) => c.el.contains(target))?.column ?? -1 }
  }

  private press(e: PointerEvent) {
    const hit = this.hit(e)
    if (!hit || e.button !== 0) return
    e.preventDefault()
    this.host.focus({ preventScroll: true })
    const last = this.data.columns.length - 1
    const to = (h: { row: number; column: number }, from: Selection): Selection =>
      h.column < 0 ? { ...from, row: h.row, column: last } : { ...from, row: h.row, column: h.column }
    const start = e.shiftKey && this.selection ? this.selection : hit.column < 0 ? { ...at(hit.row, 0), column: last } : at(hit.row, hit.column)
    this.select(e.shiftKey ? to(hit, start) : start)
    const over = (m: PointerEvent) => {
      const h = this.hit(m)
      if (h) this.select(to(hit.column < 0 ? { ...h, column: -1 } : h.column < 0 ? { ...h, column: 0 } : h, start))
    }
    const up = () => {
      this.body.removeEventListener('pointermove', over)
      window.removeEventListener('pointerup', up)
    }
    this.body.addEventListener('pointermove', over)
    window.addEventListener('pointerup', up)
  }

  private drag(e: PointerEvent, column: number) {
    e.preventDefault()
    e.stopPropagation()
    if (e.detail === 2) return this.setWidth(column, this.fit(column))
    const start = this.widths[column]! - e.clientX
    const moved = (m: PointerEvent) => this.setWidth(column, start + m.clientX)
    const up = () => {
      window.removeEventListener('pointermove', moved)
      window.removeEventListener('pointerup', up)
      window.addEventListener('click', swallow, { capture: true, once: true })
      setTimeout(() => window.removeEventListener('click', swallow, { capture: true }))
    }
    window.addEventListener('pointermove', moved)
    window.addEventListener('pointerup', up)
  }
}

const changeClass: Record<number, string> = {
  [Change.Other]: 'changed', [Change.Up]: 'changed up', [Change.Down]: 'changed down', [Change.New]: 'changed new',
}

const swallow = (e: Event) => e.stopPropagation()

const sameColumns = (a: readonly Column[], b: readonly Column[]) =>
  a.length === b.length && a.every((c, i) => c.name === b[i]!.name && c.type === b[i]!.type)
