// The views: how each one is doing, what it is made of, and one group of it by key.

import { useState } from 'preact/hooks'
import { lookup } from '../api/client.ts'
import type { Export, Lookup, View } from '../api/types.ts'
import { show, visible } from '../grid/text.ts'
import { createSource, createView, queryOf } from '../sql/examples.ts'
import { quoteName } from '../sql/suggest.ts'
import { catalogError, rateHistory, sources, views } from '../store/catalog.ts'
import { now, readOnly } from '../store/connection.ts'
import { link, route } from '../store/route.ts'
import { bytes, count, duration, lag, moment, plural, rate } from '../ui/format.ts'
import { openInEditor } from '../ui/open.ts'
import { Button, copy, Empty, Spark, SqlText, StateBadge, useReveal } from '../ui/parts.tsx'

export function ViewsPage() {
  const all = views.value
  if (!all) return <Loading />
  if (all.length === 0) return <NoViews />
  const shown = all.find((v) => v.name === route.value.name)
  return (
    <div class="page">
      <div class="page-head">
        <h1>Views</h1>
        <p class="hint">{plural(all.filter((v) => v.kind === 'materialized').length, 'materialized view')}, {bytes(all.reduce((n, v) => n + (v.bytes ?? 0), 0))} of state</p>
      </div>
      {!shown && route.value.name !== '' && <p class="warn-box" role="status">There is no view {visible(route.value.name)}.</p>}
      <div class="table-box" tabIndex={0} role="region" aria-label="All views">
        <table>
          <thead>
            <tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">From</th><th scope="col" class="num" colSpan={2}>Records/s</th><th scope="col" class="num">Lag</th><th scope="col" class="num">Groups</th><th scope="col" class="num">Size</th><th scope="col" class="num">Epoch</th><th scope="col"><span class="off-screen">Actions</span></th></tr>
          </thead>
          <tbody>
            {all.map((v) => (
              <tr key={v.name} class={v === shown ? 'current' : ''}>
                <th scope="row"><a href={link('views', v.name)} aria-current={v === shown ? 'true' : undefined}>{visible(v.name)}</a></th>
                {v.kind === 'materialized'
                  ? <>
                      <td><StateBadge state={v.state} error={v.error} />{v.error && readOnly.value === '' && <span class={`why ${v.state === 'waiting' ? 'warn' : ''}`} title={visible(v.error)}>{visible(v.error)}</span>}</td>
                      <td>{visible(v.source ?? '')}</td>
                      <td class="spark-cell"><Spark values={rateHistory.value.get('view ' + v.name) ?? []} /></td>
                      <td class="num">{rate(v.rate)}</td>
                      <td class={`num ${v.lag ? '' : 'dim'}`}>{lag(v.lag)}</td>
                      <td class="num">{count(v.groups)}</td>
                      <td class="num">{bytes(v.bytes)}</td>
                      <td class="num">{count(v.epoch)}</td>
                    </>
                  : <><td><span class="badge">plain view</span></td><td colSpan={7} class="dim">computed when it is queried</td></>}
                <td class="actions"><Button look="quiet" icon="play" onClick={() => openInEditor(queryOf(v), true)}>Query<span class="off-screen"> {visible(v.name)}</span></Button></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown ? <Detail key={shown.name} view={shown} /> : <p class="hint">Choose a view to see its SQL, columns and positions, and to look up a group.</p>}
    </div>
  )
}

function Detail({ view: v }: { view: View }) {
  return (
    <section class="detail" ref={useReveal()} aria-label={visible(v.name)}>
      <div class="detail-head">
        <h2>{visible(v.name)}</h2>
        {v.kind === 'materialized' && <StateBadge state={v.state} error={v.error} />}
        <span class="gap" />
        <Button look="primary" icon="play" onClick={() => openInEditor(queryOf(v), true)}>Query it</Button>
        {v.kind === 'materialized' && readOnly.value === '' && <Button onClick={() => openInEditor(`VERIFY VIEW ${quoteName(v.name)}`, false)} title="Recomputes the view from its topic and compares">Verify …</Button>}
      </div>
      {v.error && readOnly.value === '' && <p class={v.state === 'waiting' ? 'warn-box' : 'error-box'}>{visible(v.error, '\n')}</p>}
      {v.quarantined > 0 && <p class="warn-box">{plural(v.quarantined, 'record')} could not be evaluated for this view. <a href={link('sources', v.source)}>See them at {visible(v.source)}</a></p>}
      {v.export?.error && <p class="warn-box">{v.export.error.startsWith('waits ') ? <>The export {visible(v.export.error, '\n')}.</> : <>The view was not exported: {visible(v.export.error, '\n')}. The next checkpoint is tried.</>}</p>}
      <div class="columns-2">
        <div>
          <h3>Definition <Button look="quiet" icon="copy" aria-label="Copy the SQL" onClick={() => void copy(v.sql, 'the SQL')} /></h3>
          <SqlText sql={v.sql} />
          {v.kind === 'materialized' && v.columns.some((c) => c.role === 'key') && <LookupForm view={v} />}
        </div>
        <div>
          <h3>Columns</h3>
          <table class="plain">
            <thead><tr><th scope="col">Name</th><th scope="col">Type</th><th scope="col">Role</th></tr></thead>
            <tbody>{v.columns.map((c) => <tr key={c.name}><th scope="row">{visible(c.name)}</th><td><code>{c.type}</code></td><td>{c.role === 'key' ? <span class="badge key-badge">key</span> : <span class="dim">{c.role ?? ''}</span>}</td></tr>)}</tbody>
          </table>
          {v.positions.length > 0 && (
            <>
              <h3>Positions</h3>
              <table class="plain">
                <thead><tr><th scope="col">Topic</th><th scope="col" class="num">Partition</th><th scope="col" class="num">Next offset</th></tr></thead>
                <tbody>{v.positions.map((p) => <tr key={p.topic + p.partition}><td>{visible(p.topic)}</td><td class="num">{p.partition}</td><td class="num">{count(p.next)}</td></tr>)}</tbody>
              </table>
            </>
          )}
          {v.export && <ExportState of={v.export} />}
        </div>
      </div>
    </section>
  )
}

// ExportState shows where a view is exported to, and the newest export.
function ExportState({ of: e }: { of: Export }) {
  return (
    <>
      <h3>Export <Button look="quiet" icon="copy" aria-label="Copy the directory" onClick={() => void copy(e.target, 'the directory')} /></h3>
      <dl class="found">
        <div><dt>{e.format === 'iceberg' ? 'Iceberg table' : 'Parquet files'}</dt><dd>{visible(e.target)}</dd></div>
        <div><dt>When</dt><dd>after each checkpoint{e.every_s ? `, every ${duration(e.every_s * 1000)} at most` : ''}; {plural(e.keep, 'export stays', 'exports stay')}</dd></div>
        <div><dt>Newest</dt><dd>{e.at === null ? 'none yet' : `epoch ${count(e.epoch)}, ${moment(e.at, now.value)}`}</dd></div>
        {e.at !== null && <div><dt>Holds</dt><dd>{plural(e.rows, 'row')}, {bytes(e.bytes)}{e.whole ? '' : '; the view still read old records'}</dd></div>}
      </dl>
    </>
  )
}

// LookupForm finds one group by its key, which costs one read, not a scan.
function LookupForm({ view }: { view: View }) {
  const keys = view.columns.filter((c) => c.role === 'key')
  const [values, setValues] = useState<Record<string, string>>({})
  const [found, setFound] = useState<Lookup | null | undefined>()
  const [error, setError] = useState('')
  const submit = async (e: Event) => {
    e.preventDefault()
    setError('')
    try {
      setFound(await lookup(view.name, Object.fromEntries(keys.map((k) => [k.name, values[k.name] ?? '']))))
    } catch (err) {
      setFound(undefined)
      setError((err as Error).message)
    }
  }
  const typeOf = (name: string) => view.columns.find((c) => c.name === name)?.type ?? ''
  return (
    <>
      <h3>Look up a group</h3>
      <form class="lookup" onSubmit={submit}>
        {keys.map((k) => (
          <label key={k.name}>
            <span>{visible(k.name)} <small>{k.type}</small></span>
            <input class="field" value={values[k.name] ?? ''} onInput={(e) => setValues({ ...values, [k.name]: e.currentTarget.value })} />
          </label>
        ))}
        <Button type="submit">Look up</Button>
      </form>
      <div role="status">
        {error && <p class="error-box">{visible(error)}</p>}
        {found === null && <p class="hint">There is no such group.</p>}
        {found && (
          <dl class="found">
            {Object.entries({ ...found.key, ...found.value }).map(([name, v]) => {
              const shown = show(v, typeOf(name))
              return <div key={name}><dt>{visible(name)}</dt><dd class={shown.look}>{shown.text}</dd></div>
            })}
            <div><dt class="dim">epoch</dt><dd class="dim">{count(found.epoch)}</dd></div>
          </dl>
        )}
      </div>
    </>
  )
}

function NoViews() {
  const source = sources.value?.[0]
  const sql = source ? createView(source) : createSource
  return (
    <div class="page">
      <h1 class="off-screen">Views</h1>
      <Empty title="No view yet">
        <p>{source ? 'A materialized view keeps an aggregate of a source up to date.' : 'Views are made over sources. Connect a topic first:'}</p>
        <SqlText sql={sql} />
        <Button look="primary" onClick={() => openInEditor(sql, false)}>Open in the editor</Button>
      </Empty>
    </div>
  )
}

export function Loading() {
  return <div class="page"><Empty title={catalogError.value ? 'No catalogue' : 'Loading …'}>{catalogError.value && <p>{visible(catalogError.value)}</p>}</Empty></div>
}
