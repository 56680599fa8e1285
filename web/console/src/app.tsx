// The frame: header, pages, banners and the log-in form.

import { effect } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { follow } from './store/catalog.ts'
import { visible } from './grid/text.ts'
import { failures, heard, loginNeeded, now, online, pollNow, readOnly, retryAt } from './store/connection.ts'
import { onQueryPage } from './store/runs.ts'
import { route } from './store/route.ts'
import { dismiss, toasts } from './store/toast.ts'
import { duration, moment } from './ui/format.ts'
import { Button } from './ui/parts.tsx'
import { Header } from './ui/header.tsx'
import { Keys } from './ui/keys.tsx'
import { Login } from './pages/login.tsx'
import { QueryPage } from './pages/query.tsx'
import { ViewsPage } from './pages/views.tsx'
import { SourcesPage } from './pages/sources.tsx'
import { CheckpointsPage } from './pages/checkpoints.tsx'

export function App() {
  const [help, setHelp] = useState(false)
  const { page } = route.value
  useEffect(() => effect(() => {
    const { page } = route.value
    onQueryPage.value = page === 'query'
    if (!loginNeeded.value) follow(page === 'query' ? 5000 : 1000)
  }), [])
  useEffect(() => {
    document.title = { query: 'Query', views: 'Views', sources: 'Sources', checkpoints: 'Checkpoints' }[page] + ' · Weir'
  }, [page])
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const typing = (e.composedPath()[0] as HTMLElement)?.matches?.('input, textarea, [contenteditable=true]')
      if (e.key === '?' && !typing && !e.ctrlKey && !e.metaKey) setHelp(true)
    }
    document.addEventListener('keydown', key)
    return () => document.removeEventListener('keydown', key)
  }, [])
  if (loginNeeded.value) return <Login />
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus() }}>Skip to content</a>
      <Header help={() => setHelp(true)} />
      <Banner />
      <ReadOnly />
      <main id="main" tabIndex={-1} class={`page-${page}`}>
        <div class="keep" hidden={page !== 'query'}><QueryPage /></div>
        {page === 'views' && <ViewsPage />}
        {page === 'sources' && <SourcesPage />}
        {page === 'checkpoints' && <CheckpointsPage />}
      </main>
      <Toasts />
      {help && <Keys close={() => setHelp(false)} />}
    </>
  )
}

// ReadOnly says that this is a checkpoint that weir open shows, and no appliance.
function ReadOnly() {
  if (readOnly.value === '') return null
  return (
    <section class="banner plain" aria-label="Read only">
      <strong>Read only.</strong>
      <span>This is {visible(readOnly.value)}. No topic is read, and nothing can be changed.</span>
    </section>
  )
}

function Banner() {
  if (online.value) return null
  const wait = Math.max(0, retryAt.value - now.value)
  return (
    <div class="banner" role="alert">
      <strong>{heard.value === 0 ? 'Weir does not answer.' : 'Connection to Weir lost.'}</strong>
      <span>
        {heard.value > 0 && `What you see is from ${moment(heard.value, now.value)}, ${duration(now.value - heard.value)} ago. `}
        {failures.value > 0 && (wait < 1000 ? 'Trying again …' : `Trying again in ${Math.ceil(wait / 1000)} s.`)}
      </span>
      <Button onClick={pollNow}>Try now</Button>
    </div>
  )
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((t) => (
        <div key={t.id} class={`toast ${t.bad ? 'bad' : ''}`}>
          <span>{t.text}</span>
          {t.action && <Button onClick={() => { dismiss(t.id); t.action!.act() }}>{t.action.name}</Button>}
          <Button look="quiet" icon="close" aria-label="Dismiss" onClick={() => dismiss(t.id)} />
        </div>
      ))}
    </div>
  )
}
