// Two states of a view side by side: what changed between them, and how one group came to be.

import { useEffect, useRef, useState } from 'preact/hooks'
import { runSql, type Answer } from '../api/client.ts'
import type { Json } from '../api/json.ts'
import type { Checkpoint, Row, View } from '../api/types.ts'
import { kindOf, show, textOf, visible } from '../grid/text.ts'
import { diffSql, historySql, shapeOf, type Point, type Shape } from '../sql/past.ts'
import { quoteName } from '../sql/suggest.ts'
import { views } from '../store/catalog.ts'
import { now } from '../store/connection.ts'
import { count, moment, plural } from '../ui/format.ts'
import { openInEditor } from '../ui/open.ts'
import { Button, useReveal } from '../ui/parts.tsx'
import { ChartView } from './chart.tsx'

const shownRows = 200

// nameOf is what a point is called.
export function nameOf(p: Point, all: readonly Checkpoint[]): string {
  if (p === 'live') return 'now'
  const name = all.find((c) => c.id === p)?.savepoint
  return name === undefined ? `version ${p}` : visible(name)
}

type Key = { name: string; value: Json; type: string }[]
interface Group { view: string; of: Key }
interface Asked { view: View; from: Point; to: Point; sql: string }
interface Found { asked: Asked; answer: Answer; shape: Shape; kinds: Map<string, number> }

export function Compare({ all, from, to, choose }: { all: readonly Checkpoint[]; from: Point; to: Point; choose(from: Point, to: Point): void }) {
  const kept = (views.value ?? []).filter((v) => v.kind === 'materialized')
  const [name, setName] = useState('')
  const [found, setFound] = useState<Found | undefined>()
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  const [group, setGroup] = useState<Group | undefined>()
  const running = useRef<AbortController | undefined>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  const view = kept.find((v) => v.name === name) ?? kept[0]
  if (!view) return null

  const compare = async (asked: Asked, order = 'ALL') => {
    running.current?.abort()
    const stop = (running.current = new AbortController())
    setBusy(true)
    setError('')
    try {
      const [answer, kinds] = await Promise.all([
        runSql({ sql: `SELECT * FROM ${asked.sql} ORDER BY ${order} LIMIT ${shownRows}`, signal: stop.signal }),
        runSql({ sql: `SELECT change, count(*) AS n FROM ${asked.sql} GROUP BY change`, signal: stop.signal }),
      ])
      const results = asked.view.columns.filter((c) => c.role !== 'key').length
      setFound({ asked, answer, shape: shapeOf(answer.columns, results), kinds: new Map(kinds.rows.map((r) => [String(r[0]), Number(r[1])])) })
    } catch (err) {
      if (stop.signal.aborted) return
      setFound(undefined)
      setError((err as Error).message)
    }
    setBusy(false)
  }
  const submit = (e: Event) => {
    e.preventDefault()
    setGroup(undefined)
    void compare({ view, from, to, sql: diffSql(view.name, from, to, all) })
  }
  const point = (label: string, value: Point, set: (p: Point) => void) => (
    <label>
      <span>{label}</span>
      <select class="field" aria-label={label} value={String(value)} onChange={(e) => set(e.currentTarget.value === 'live' ? 'live' : Number(e.currentTarget.value))}>
        <option value="live">now</option>
        {all.map((c) => <option key={c.id} value={String(c.id)}>{`${c.savepoint === undefined ? '' : visible(c.savepoint) + ' · '}version ${c.id}, ${moment(c.created, now.value)}`}</option>)}
      </select>
    </label>
  )
  return (
    <section class="detail" aria-label="Compare">
      <div class="detail-head"><h2>Compare</h2></div>
      <form class="lookup" onSubmit={submit}>
        <label>
          <span>View</span>
          <select class="field" aria-label="View" value={view.name} onChange={(e) => setName(e.currentTarget.value)}>
            {kept.map((v) => <option key={v.name} value={v.name}>{visible(v.name)}</option>)}
          </select>
        </label>
        {point('From', from, (p) => choose(p, to))}
        {point('To', to, (p) => choose(from, p))}
        <Button type="submit" look="primary" disabled={busy}>{busy ? 'Comparing …' : 'Compare'}</Button>
      </form>
      <div role="status">
        {error && <p class="error-box">{visible(error, '\n')}</p>}
        {found && <Summary found={found} all={all} />}
      </div>
      {found && found.answer.rows.length > 0 && (
        <Changes found={found} sort={(order) => void compare(found.asked, order)}
          history={(of) => setGroup({ view: found.asked.view.name, of })} />
      )}
      {group && <GroupHistory key={historySql(group.view, group.of)} {...group} close={() => setGroup(undefined)} />}
    </section>
  )
}

function Summary({ found: { asked, answer, kinds }, all }: { found: Found; all: readonly Checkpoint[] }) {
  const sum = [...kinds.values()].reduce((a, b) => a + b, 0)
  const parts = ['added', 'removed', 'changed'].map((k) => `${count(kinds.get(k) ?? 0)} ${k}`)
  if (kinds.has('error')) parts.push(`${count(kinds.get('error'))} in error`)
  return (
    <div class="diff-head">
      <p>
        <strong>{visible(asked.view.name)}</strong> from {nameOf(asked.from, all)} to {nameOf(asked.to, all)}:{' '}
        {sum === 0 ? 'no group differs.' : <>{plural(sum, 'group')} {sum === 1 ? 'differs' : 'differ'}: {parts.join(', ')}.</>}
        {sum > answer.rows.length && ` The first ${count(answer.rows.length)} are shown.`}
      </p>
      <Button look="quiet" icon="play" onClick={() => openInEditor(`SELECT * FROM ${asked.sql}`, true)}>Open in the editor</Button>
    </div>
  )
}

function Changes({ found, sort, history }: { found: Found; sort(order: string): void; history(of: Key): void }) {
  const { answer: { columns, rows }, shape } = found
  const [order, setOrder] = useState('')
  const keys = columns.slice(1, 1 + shape.keys)
  const numbers = shape.changes.filter((c) => c.delta !== undefined)
  const reorder = (e: { currentTarget: HTMLSelectElement }) => {
    const by = e.currentTarget.value
    setOrder(by)
    sort(by === '' ? 'ALL' : `abs(${quoteName(by)}) DESC NULLS LAST`)
  }
  return (
    <>
      {numbers.length > 0 && (
        <label class="measure">Order by <select class="field" aria-label="Order by" value={order} onChange={reorder}>
          <option value="">kind of change and key</option>
          {numbers.map((c) => <option key={c.name} value={columns[c.delta!]!.name}>size of the change of {visible(c.name)}</option>)}
        </select></label>
      )}
      <div class="table-box changes" tabIndex={0} role="region" aria-label="Groups that differ">
        <table>
          <thead>
            <tr>
              <th scope="col">Change</th>
              {keys.map((k, i) => <th key={i} scope="col" class={i === 0 ? 'stays' : ''}>{visible(k.name)}</th>)}
              {shape.changes.map((c) => <th key={c.before} scope="col" class={c.delta === undefined ? '' : 'num'}>{visible(c.name)}</th>)}
              <th scope="col"><span class="off-screen">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, n) => {
              const key = keys.map((k, i) => ({ name: k.name, value: row[1 + i]!, type: k.type }))
              return (
                <tr key={n}>
                  <td><Kind change={String(row[0])} /></td>
                  {keys.map((k, i) => <Cell key={i} value={row[1 + i]!} type={k.type} head={i === 0} />)}
                  {row[0] === 'error'
                    ? <td colSpan={shape.changes.length} class="wrap bad-text">{visible(String(row.at(-1)))}</td>
                    : shape.changes.map((c) => <Pair key={c.before} row={row} change={c} deltaType={c.delta === undefined ? '' : columns[c.delta]!.type} />)}
                  <td class="actions"><Button look="quiet" icon="chart" onClick={() => history(key)}>History<span class="off-screen"> of {keyText(key)}</span></Button></td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
    </>
  )
}

const looks: Record<string, string> = { added: 'good', removed: 'warn', changed: '', error: 'bad' }

function Kind({ change }: { change: string }) {
  return <span class={`badge ${looks[change] ?? ''}`}><span class="dot" />{change}</span>
}

function Cell({ value, type, head }: { value: Json; type: string; head: boolean }) {
  const { text, look } = show(value, type)
  return head ? <th scope="row" class={`wrap stays ${look}`}>{text}</th> : <td class={`wrap ${look}`}>{text}</td>
}

// Pair is a result before and after. What did not change is shown once.
function Pair({ row, change: c, deltaType }: { row: Row; change: Shape['changes'][number]; deltaType: string }) {
  const before = row[c.before]!
  const after = row[c.after]!
  const look = c.delta === undefined ? '' : 'num'
  if (row[0] === 'added') return <td class={`${look} ${show(after, c.type).look}`}><Short value={after} type={c.type} /></td>
  if (row[0] === 'removed') return <td class={`${look} ${show(before, c.type).look}`}><Short value={before} type={c.type} /></td>
  if (textOf(before, c.type) === textOf(after, c.type) && (before === null) === (after === null)) return <td class={`${look} dim`}><Short value={before} type={c.type} /></td>
  const delta = c.delta === undefined ? null : row[c.delta]!
  return (
    <td class={look}>
      <span class="was"><Short value={before} type={c.type} /></span> <span class="off-screen">became</span><span aria-hidden="true">→</span> <Short value={after} type={c.type} />
      {delta !== null && <strong class="delta"><Short value={delta} type={deltaType} sign /></strong>}
    </td>
  )
}

// Short is a value in little room: a double has seven digits of meaning, and all of them where the pointer rests.
function Short({ value, type, sign }: { value: Json; type: string; sign?: boolean }) {
  const put = (text: string) => (sign ? signed(text) : text)
  const whole = put(show(value, type).text)
  if (typeof value !== 'number' || !/^(DOUBLE|FLOAT)$/i.test(type) || Number.isInteger(value)) return <>{whole}</>
  const short = put(String(Number(value.toPrecision(7))))
  return short === whole ? <>{whole}</> : <span title={whole}>{short}</span>
}

const signed = (text: string) => (text.startsWith('-') ? '−' + text.slice(1) : '+' + text)

const keyText = (of: Key) => (of.length === 0 ? 'the only group' : of.map((k) => show(k.value, k.type).text).join(', '))

// GroupHistory is one group in every checkpoint, as a chart and as numbers.
function GroupHistory({ view, of, close }: Group & { close(): void }) {
  const [answer, setAnswer] = useState<Answer | undefined>()
  const [error, setError] = useState('')
  const [chosen, setChosen] = useState('')
  const box = useReveal()
  const sql = `SELECT * FROM ${historySql(view, of)}`
  useEffect(() => {
    const stop = new AbortController()
    runSql({ sql, signal: stop.signal }).then(setAnswer, (err: Error) => stop.signal.aborted || setError(err.message))
    return () => stop.abort()
  }, [])
  const columns = answer?.columns ?? []
  const first = momentColumns + of.length
  const results = columns.map((c, i) => ({ ...c, i })).slice(first, -1)
  const numbers = results.filter((c) => kindOf(c.type) === 'number')
  const measure = numbers.find((c) => c.name === chosen) ?? numbers[0]
  return (
    <section class="past" ref={box} aria-label="History of a group">
      <div class="detail-head">
        <h3>History of {keyText(of)}</h3>
        <span class="gap" />
        <Button look="quiet" icon="play" onClick={() => openInEditor(sql, true)}>Open in the editor</Button>
        <Button look="quiet" icon="close" aria-label="Close the history" onClick={close} />
      </div>
      <div role="status">{error && <p class="error-box">{visible(error, '\n')}</p>}</div>
      {answer && measure && answer.rows.length > 1 && (
        <>
          {numbers.length > 1 && (
            <label class="measure">Chart of <select class="field" aria-label="Chart of" value={measure.name} onChange={(e) => setChosen(e.currentTarget.value)}>
              {numbers.map((c) => <option key={c.i} value={c.name}>{visible(c.name)}</option>)}
            </select></label>
          )}
          <div class="past-chart"><ChartView columns={[{ name: 'time', type: 'TIMESTAMP' }, measure]} rows={answer.rows.map((r) => [moment(String(r[2]), 0), r[measure.i]!])} /></div>
        </>
      )}
      {answer && (
        <div class="table-box" tabIndex={0} role="region" aria-label="The group in every checkpoint">
          <table>
            <thead><tr><th scope="col">Version</th><th scope="col">Taken</th>{results.map((c) => <th key={c.i} scope="col" class={kindOf(c.type) === 'number' ? 'num' : ''}>{visible(c.name)}</th>)}</tr></thead>
            <tbody>
              {answer.rows.map((r) => (
                <tr key={String(r[0])}>
                  <th scope="row">{String(r[0])}{r[3] !== null && <span class="badge key-badge">{visible(String(r[3]))}</span>}</th>
                  <td>{moment(String(r[2]), now.value)}</td>
                  <Values row={r} results={results} />
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

// What stands before the key in a history: version, epoch, created, savepoint, present.
const momentColumns = 5

function Values({ row, results }: { row: Row; results: { type: string; i: number }[] }) {
  const error = row.at(-1)!
  const present = row[momentColumns - 1]!
  if (error !== null) return <td colSpan={Math.max(1, results.length)} class="wrap bad-text">{visible(String(error))}</td>
  if (present !== true) return <td colSpan={Math.max(1, results.length)} class="dim">not there</td>
  return <>{results.map((c) => {
    const { text, look } = show(row[c.i]!, c.type)
    return <td key={c.i} class={`${kindOf(c.type) === 'number' ? 'num' : ''} ${look}`}>{text}</td>
  })}</>
}
