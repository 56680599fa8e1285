// The header: where to go, and how fresh what you see is.

import { catalogError, sources, views } from '../store/catalog.ts'
import { dataAge, epoch, online, rates, readOnly, status } from '../store/connection.ts'
import { setTheme, theme, type Theme } from '../store/prefs.ts'
import { link, route, type Page } from '../store/route.ts'
import { visible } from '../grid/text.ts'
import { conditionOf, troubleOf } from './condition.ts'
import { age, bytes, count, duration, rate } from './format.ts'
import { Button, Mark, Spark } from './parts.tsx'

const pages: [Page, string][] = [['query', 'Query'], ['views', 'Views'], ['sources', 'Sources'], ['checkpoints', 'Checkpoints']]
const next: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' }
const icons = { system: 'auto', light: 'sun', dark: 'moon' } as const

export function Header({ help }: { help(): void }) {
  const bad = (all: readonly { state: string; error?: string }[] | undefined) => (all ?? []).filter((p) => troubleOf(p)?.look === 'bad').length
  const trouble: Partial<Record<Page, number>> = readOnly.value !== '' ? {} : { views: bad(views.value), sources: bad(sources.value) }
  return (
    <header class="top">
      <a class="brand" href={link('query')} aria-label="Weir, query page">
        <Mark />
        <span>Weir</span>
      </a>
      <nav aria-label="Pages">
        {pages.map(([page, name]) => (
          <a key={page} href={link(page)} aria-current={route.value.page === page ? 'page' : undefined}>
            {name}
            {trouble[page] ? <span class="count bad" title={`${trouble[page]} stopped or in error`}>{trouble[page]}<span class="off-screen"> stopped or in error</span></span> : null}
          </a>
        ))}
      </nav>
      <Pulse />
      <Button look="quiet" icon={icons[theme.value]} aria-label={`Theme: ${theme.value}. Change to ${next[theme.value]}`} title={`Theme: ${theme.value}`} onClick={() => setTheme(next[theme.value])} />
      <Button look="quiet" icon="help" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={help} />
    </header>
  )
}

function Pulse() {
  const s = status.value
  if (!s) return <div class="pulse"><span class="dot warn" />{online.value ? 'connecting' : 'offline'}</div>
  const is = online.value
    ? conditionOf(s, views.value ?? [], sources.value ?? [])
    : { look: 'bad', text: 'offline', why: '' }
  const look = is.look === 'good' && catalogError.value ? 'warn' : is.look
  if (online.value && readOnly.value !== '') {
    return (
      <div class="pulse" title={`Weir ${s.version} shows ${visible(readOnly.value)}`}>
        <span class="state"><span class="dot" />read only</span>
        <span class="epoch">epoch <b>{count(epoch.value)}</b></span>
        <span class="age">data <b>{age(dataAge.value)}</b> old</span>
      </div>
    )
  }
  const tip = `${is.why === '' ? '' : visible(is.why) + '. '}Weir ${s.version}, up ${duration(s.uptime_s * 1000)}, ${bytes(s.memory)} of memory, record to view ${duration(s.freshness_ms)}`
  return (
    <div class="pulse" title={tip}>
      <span class="state"><span class={`dot ${look}`} />{is.text}</span>
      <span class="rate"><Spark values={rates.value} /><b>{rate(s.rate)}</b> rec/s</span>
      <span class="epoch">epoch <b>{count(epoch.value)}</b></span>
      <span class="age">data <b>{age(dataAge.value)}</b> old</span>
    </div>
  )
}
