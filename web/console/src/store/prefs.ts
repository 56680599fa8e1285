// What the browser remembers, as JSON under one name per thing. Storage that is full, broken or forbidden loses the
// memory, never the page: writes report whether they were kept.

import { signal } from '@preact/signals'

export function load<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem('weir.' + name)
    return text === null ? otherwise : (JSON.parse(text) as T)
  } catch {
    return otherwise
  }
}

export function save(name: string, value: unknown): boolean {
  try {
    localStorage.setItem('weir.' + name, JSON.stringify(value))
    return true
  } catch {
    return false
  }
}

export function forget(name: string) {
  try {
    localStorage.removeItem('weir.' + name)
  } catch {
    // nothing was kept, so nothing is left
  }
}

export type Theme = 'system' | 'light' | 'dark'

export const theme = signal<Theme>(load<Theme>('theme', 'system'))

export function setTheme(t: Theme) {
  theme.value = t
  save('theme', t)
  showTheme()
}

// showTheme puts the choice where the style sheet looks.
export function showTheme() {
  document.documentElement.dataset.theme = theme.value
}
