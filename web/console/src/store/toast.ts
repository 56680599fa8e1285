// Short messages about what just happened. Screen readers hear them.

import { signal } from '@preact/signals'

export interface Toast { id: number; text: string; bad: boolean; action?: Action | undefined }
export interface Action { name: string; act(): void }

export const toasts = signal<readonly Toast[]>([])

let last = 0

export function toast(text: string, bad = false, action?: Action) {
  const id = ++last
  toasts.value = [...toasts.value.slice(-2), { id, text, bad, action }]
  setTimeout(() => dismiss(id), bad || action ? 10_000 : 4_000)
}

export function dismiss(id: number) {
  toasts.value = toasts.value.filter((t) => t.id !== id)
}
