// Which rows are on screen.
//
// Rows have one height, so a row's place is arithmetic. Browsers clamp the height of an element (Chromium near 33
// million pixels, Firefox near 17), so beyond `maxHeight` the scroll bar is a scale: a scroll position stands for a
// proportional place in the virtual height, and the rows are laid out around it.

export const rowHeight = 26
const maxHeight = 8_000_000

export interface Window {
  first: number // first row to draw
  last: number // after the last
  y: number // top of the first row in the scrolled content, in pixels
}

export class Viewport {
  constructor(readonly rows: number, readonly height: number) {}

  // content is the height of the scrolled element.
  get content(): number {
    return Math.min(this.rows * rowHeight, maxHeight)
  }

  // page is how many whole rows fit, at least one.
  get page(): number {
    return Math.max(1, Math.floor(this.height / rowHeight))
  }

  window(scrollTop: number): Window {
    const top = this.toVirtual(scrollTop)
    const first = Math.max(0, Math.min(this.rows, Math.floor(top / rowHeight)))
    const last = Math.min(this.rows, Math.ceil((top + this.height) / rowHeight) + 1)
    return { first, last, y: scrollTop - (top - first * rowHeight) }
  }

  // reveal returns the scroll position, as near to the present one as possible, that shows all of a row.
  reveal(row: number, scrollTop: number): number {
    const top = this.toVirtual(scrollTop)
    const y = row * rowHeight
    if (y < top) return this.toScroll(y)
    if (y + rowHeight > top + this.height) return this.toScroll(y + rowHeight - this.height)
    return scrollTop
  }

  private get scale(): number {
    const over = this.content - this.height
    return this.rows * rowHeight <= maxHeight || over <= 0 ? 1 : (this.rows * rowHeight - this.height) / over
  }

  private toVirtual(scrollTop: number): number {
    return Math.max(0, scrollTop) * this.scale
  }

  private toScroll(virtual: number): number {
    return Math.max(0, virtual / this.scale)
  }
}
