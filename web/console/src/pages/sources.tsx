// The sources: what comes in, how far behind each partition is, and the records that could not be used.

import { useState } from 'preact/hooks'
import type { Source } from '../api/types.ts'
import { visible } from '../grid/text.ts'
import { createSource, createView } from '../sql/examples.ts'
import { quoteName } from '../sql/suggest.ts'
import { rateHistory, sources } from '../store/catalog.ts'
import { readOnly } from '../store/connection.ts'
import { link, route } from '../store/route.ts'
import { behind, count, lag, rate } from '../ui/format.ts'
import { openInEditor } from '../ui/open.ts'
import { Button, copy, Empty, Spark, SqlText, StateBadge, useReveal } from '../ui/parts.tsx'
import { Quarantine } from './quarantine.tsx'
import { Loading } from './views.tsx'

const onceEach = 'A record that several views refuse is counted once for each of them'

export function SourcesPage() {
  const all = sources.value
  const [quarantine, setQuarantine] = useState('')
  if (!all) return <Loading />
  if (all.length === 0) return <NoSources />
  const shown = all.find((s) => s.name === route.value.name)
  return (
    <div class="page">
      <div class="page-head">
        <h1>Sources</h1>
        <p class="hint">{rate(all.reduce((n, s) => n + s.rate, 0))} records/s, {behind(all.map((s) => s.lag))}</p>
      </div>
      {!shown && route.value.name !== '' && <p class="warn-box" role="status">There is no source {visible(route.value.name)}.</p>}
      <div class="table-box" tabIndex={0} role="region" aria-label="All sources">
        <table>
          <thead>
            <tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Topic</th><th scope="col">Format</th><th scope="col" class="num" colSpan={2}>Records/s</th><th scope="col" class="num">Lag</th><th scope="col" class="num">Records</th><th scope="col" class="num" title={onceEach}>Refused, <small>counted once per view</small></th></tr>
          </thead>
          <tbody>
            {all.map((s) => (
              <tr key={s.name} class={s === shown ? 'current' : ''}>
                <th scope="row"><a href={link('sources', s.name)} aria-current={s === shown ? 'true' : undefined}>{visible(s.name)}</a></th>
                <td><StateBadge state={s.state} error={s.error} /></td>
                <td>{visible(s.topic ?? '')}</td>
                <td>{visible(s.format ?? '')}</td>
                <td class="spark-cell"><Spark values={rateHistory.value.get('source ' + s.name) ?? []} /></td>
                <td class="num">{rate(s.rate)}</td>
                <td class={`num ${s.lag ? '' : 'dim'}`}>{lag(s.lag)}</td>
                <td class="num">{count(s.records)}</td>
                <td class="num">{s.quarantined > 0 ? <button type="button" class="as-link warn-text" onClick={() => setQuarantine(s.name)}>{count(s.quarantined)}<span class="off-screen"> refused, counted once per view, of {visible(s.name)}</span></button> : <span class="dim">0</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown ? <Detail key={shown.name} source={shown} quarantine={() => setQuarantine(shown.name)} /> : <p class="hint">Choose a source to see its partitions, columns and SQL.</p>}
      {quarantine !== '' && <Quarantine source={quarantine} close={() => setQuarantine('')} />}
    </div>
  )
}

function Detail({ source: s, quarantine }: { source: Source; quarantine(): void }) {
  const { partitions } = s
  const worst = Math.max(1, ...partitions.map((p) => p.lag ?? 0))
  return (
    <section class="detail" ref={useReveal()} aria-label={visible(s.name)}>
      <div class="detail-head">
        <h2>{visible(s.name)}</h2>
        <StateBadge state={s.state} error={s.error} />
        <span class="gap" />
        {s.quarantined > 0 && <Button onClick={quarantine} title={onceEach}>Quarantine ({count(s.quarantined)})</Button>}
        {readOnly.value === '' && <Button onClick={() => openInEditor(createView(s), false)}>New view …</Button>}
        {readOnly.value === '' && <Button look="primary" icon="play" onClick={() => openInEditor(`SELECT * FROM ${quoteName(s.name)} LIMIT 100`, true)}>Newest records</Button>}
      </div>
      {s.error && readOnly.value === '' && <p class={s.state === 'waiting' ? 'warn-box' : 'error-box'}>{visible(s.error, '\n')}</p>}
      <div class="columns-2">
        <div>
          <h3>Partitions</h3>
          {partitions.length === 0 && <p class="hint">{s.state === 'waiting' ? 'Waiting for the topic.' : s.state === 'idle' ? 'No view reads this source, so its topic is not asked for.' : 'None known.'}</p>}
          {partitions.length > 0 && (
            <table class="plain">
              <thead><tr><th scope="col">Partition</th><th scope="col" class="num">Next offset</th><th scope="col" class="num">End</th><th scope="col" class="num">Lag</th><th scope="col"><span class="off-screen">Lag, drawn</span></th></tr></thead>
              <tbody>
                {partitions.map((p) => (
                  <tr key={p.partition}>
                    <td>{p.partition}</td><td class="num">{count(p.next)}</td><td class="num">{lag(p.end)}</td><td class="num">{lag(p.lag)}</td>
                    <td class="meter-cell"><svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="meter-ground" width="100" height="6" /><rect class="meter-fill" width={Math.min(100, ((p.lag ?? 0) / worst) * 100)} height="6" /></svg></td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          <h3>Definition <Button look="quiet" icon="copy" aria-label="Copy the SQL" onClick={() => void copy(s.sql, 'the SQL')} /></h3>
          <SqlText sql={s.sql} />
        </div>
        <div>
          <h3>Columns</h3>
          <table class="plain">
            <thead><tr><th scope="col">Name</th><th scope="col">Type</th></tr></thead>
            <tbody>{s.columns.map((c) => <tr key={c.name}><th scope="row">{visible(c.name)}</th><td><code>{visible(c.type)}</code></td></tr>)}</tbody>
          </table>
        </div>
      </div>
    </section>
  )
}

function NoSources() {
  return (
    <div class="page">
      <h1 class="off-screen">Sources</h1>
      <Empty title="No source yet">
        <p>A source reads a Kafka topic. Name the topic and the columns you need:</p>
        <SqlText sql={createSource} />
        <Button look="primary" onClick={() => openInEditor(createSource, false)}>Open in the editor</Button>
        <p class="hint">To see it with live data first: <code>weir demo</code></p>
      </Empty>
    </div>
  )
}
