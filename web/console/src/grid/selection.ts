// The selected rectangle of a grid, and how keys move it. Row -1 is the header.

export interface Selection { anchorRow: number; anchorColumn: number; row: number; column: number }
export interface Rectangle { top: number; left: number; bottom: number; right: number } // all inclusive
export interface Size { rows: number; columns: number; page: number }
export interface Key { key: string; shift: boolean; ctrl: boolean }

export const at = (row: number, column: number): Selection => ({ anchorRow: row, anchorColumn: column, row, column })

export function rectangle(s: Selection): Rectangle {
  return {
    top: Math.min(s.anchorRow, s.row),
    left: Math.min(s.anchorColumn, s.column),
    bottom: Math.max(s.anchorRow, s.row),
    right: Math.max(s.anchorColumn, s.column),
  }
}

export const isSingle = (s: Selection) => s.anchorRow === s.row && s.anchorColumn === s.column

// move returns the selection after a key, or undefined when the key is not the grid's. Shift extends, Ctrl jumps to
// the edge, Ctrl+A takes all, Shift+Space the row, Ctrl+Space the column.
export function move(s: Selection, k: Key, size: Size): Selection | undefined {
  const lastRow = size.rows - 1
  const lastColumn = size.columns - 1
  let { row, column } = s
  switch (k.key) {
    case 'ArrowUp': row = k.ctrl ? 0 : row - 1; break
    case 'ArrowDown': row = k.ctrl ? lastRow : row + 1; break
    case 'ArrowLeft': column = k.ctrl ? 0 : column - 1; break
    case 'ArrowRight': column = k.ctrl ? lastColumn : column + 1; break
    case 'PageUp': row = Math.max(0, row - size.page); break
    case 'PageDown': row += size.page; break
    case 'Home': column = 0; if (k.ctrl) row = 0; break
    case 'End': column = lastColumn; if (k.ctrl) row = lastRow; break
    case 'a': case 'A':
      return k.ctrl && size.rows > 0 ? { anchorRow: 0, anchorColumn: 0, row: lastRow, column: lastColumn } : undefined
    case ' ':
      if (k.shift) return { anchorRow: s.anchorRow, anchorColumn: 0, row: s.row, column: lastColumn }
      if (k.ctrl && size.rows > 0) return { ...s, anchorRow: 0, row: lastRow }
      return undefined
    case 'Escape': return isSingle(s) ? undefined : at(s.row, s.column)
    default: return undefined
  }
  row = Math.max(k.shift ? 0 : -1, Math.min(lastRow, row))
  column = Math.max(0, Math.min(lastColumn, column))
  return k.shift ? { ...s, anchorRow: Math.max(0, s.anchorRow), row, column } : at(row, column)
}

// clamp keeps a selection inside a grid that has changed its size.
export function clamp(s: Selection, size: Size): Selection {
  const row = (r: number) => Math.max(-1, Math.min(size.rows - 1, r))
  const column = (c: number) => Math.max(0, Math.min(size.columns - 1, c))
  return { anchorRow: row(s.anchorRow), anchorColumn: column(s.anchorColumn), row: row(s.row), column: column(s.column) }
}
