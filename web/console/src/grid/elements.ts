// The grid's elements, and how wide a text is. Data only ever becomes the data of a text node.

export interface RowParts { el: HTMLElement; number: HTMLElement; cells: CellParts[]; row: number }
export interface CellParts { el: HTMLElement; text: Text; look: string; column: number }

export const px = (n: number) => n + 'px'

export function el(tag: string, className: string, role = '', text = ''): HTMLElement {
  const e = document.createElement(tag)
  e.className = className
  if (role !== '') e.setAttribute('role', role)
  if (text !== '') e.textContent = text
  return e
}

export function newCell(row: HTMLElement): CellParts {
  const cell = el('div', 'grid-cell', 'gridcell')
  const text = document.createTextNode('')
  cell.append(text)
  row.append(cell)
  return { el: cell, text, look: '', column: -1 }
}


export function newRow(body: HTMLElement): RowParts {
  const row = el('div', 'grid-row', 'row')
  const number = el('div', 'grid-number', 'rowheader')
  number.setAttribute('aria-colindex', '1')
  row.append(number)
  body.append(row)
  return { el: row, number, cells: [], row: -1 }
}

// Ruler measures texts in the bold form of an element's font.
export class Ruler {
  private context: CanvasRenderingContext2D | null | undefined

  constructor(private readonly host: HTMLElement) {}

  width(text: string): number {
    if (this.context === undefined) {
      this.context = document.createElement('canvas').getContext('2d')
      const { fontSize, fontFamily } = getComputedStyle(this.host)
      if (this.context) this.context.font = `600 ${fontSize} ${fontFamily}`
    }
    return this.context?.measureText(text).width ?? text.length * 7.5
  }
}
