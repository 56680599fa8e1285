// Where the page is: the part of the address after #. A link with SQL fills the editor and runs nothing.

import { signal } from '@preact/signals'
import { visible } from '../grid/text.ts'
import { toast } from './toast.ts'

const pages = ['query', 'views', 'sources', 'checkpoints'] as const

export type Page = (typeof pages)[number]

export interface Route { page: Page; name: string; sql: string }

export const route = signal<Route>(parse(location.hash))

export const link = (page: Page, name = '') => `#/${page}${name === '' ? '' : '/' + encodeURIComponent(name)}`

export const sqlLink = (sql: string) => `${location.origin}${location.pathname}#/query?sql=${encodeURIComponent(sql)}`

export function go(page: Page, name = '') {
  location.hash = link(page, name)
}

export function watchRoute() {
  const follow = () => {
    const path = location.hash.replace(/^#\/?/, '').split(/[/?]/)[0]!
    if (path !== '' && !path.includes('=') && !pages.some((p) => p === path)) toast(`There is no page ${visible(safeDecode(path))}`, true)
    route.value = parse(location.hash)
  }
  window.addEventListener('hashchange', follow)
  follow()
}

// takeToken removes a log-in token from the address, so that it is in no history and no screenshot.
export function takeToken(): string {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1] ?? ''
  if (token !== '') {
    history.replaceState(null, '', location.pathname + location.search)
    route.value = parse('')
  }
  return safeDecode(token)
}

// dropSql forgets the SQL of a link once it is in the editor.
export function dropSql() {
  history.replaceState(null, '', link('query'))
  route.value = parse(location.hash)
}

function parse(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [page, name = ''] = path.split('/')
  return {
    page: pages.find((p) => p === page) ?? 'query',
    name: safeDecode(name),
    sql: safeDecode(/(?:^|&)sql=([^&]*)/.exec(search)?.[1] ?? ''),
  }
}

function safeDecode(s: string): string {
  try {
    return decodeURIComponent(s)
  } catch {
    return s
  }
}
