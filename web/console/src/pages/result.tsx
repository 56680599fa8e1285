// What a run answered: stamp, grid or chart, error, or what to do first.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { exportSql, type Answer } from '../api/client.ts'
import { stringify } from '../api/json.ts'
import { spreadsheetSafe, tsv } from '../grid/copy.ts'
import { keyColumns } from '../grid/changes.ts'
import { chartOf, keysOf } from '../grid/chart.ts'
import { sortRows } from '../grid/order.ts'
import { isSingle, rectangle, type Selection } from '../grid/selection.ts'
import { kindOf, textOf, visible } from '../grid/text.ts'
import { GridView } from '../grid/view.ts'
import { isCut, lacks } from '../grid/whole.ts'
import { examples } from '../sql/examples.ts'
import { sources, views } from '../store/catalog.ts'
import { commits, epoch, now, readOnly } from '../store/connection.ts'
import { isRead, type Run } from '../store/runs.ts'
import { toast } from '../store/toast.ts'
import { count, duration, plural } from '../ui/format.ts'
import { Button, copy, Dialog, Empty, Menu } from '../ui/parts.tsx'
import { errorIndex } from './query.tsx'
import { ChartView } from './chart.tsx'
import { isPlan, Plan } from './plan.tsx'

interface Props {
  run: Run
  tab: string
  open(sql: string, run: boolean): void
  goTo(index: number): void
  place(index: number): { line: number; column: number } | undefined
}

export function Result(p: Props) {
  const { run } = p
  const [charts, setCharts] = useState<Record<string, string>>({}) // by tab, the columns that are drawn
  const [sort, setSort] = useState<{ column: number; descending: boolean } | undefined>()
  const [selection, setSelection] = useState<Selection | undefined>()
  const [cell, setCell] = useState<{ row: number; column: number } | undefined>()
  const grid = useRef<GridView | undefined>(undefined)
  useEffect(() => setSort(undefined), [run.sql, p.tab])
  if (run.state === 'failed') return <Failure {...p} />
  if (run.state === 'cancelled') return <section class="result"><Empty title="Cancelled"><p>The statement was stopped. Nothing it would have answered is shown.</p></Empty></section>
  const { answer } = run
  if (!answer) return run.state === 'running' ? <Waiting run={run} /> : <First open={p.open} />
  // A chart is of these columns: another statement's answer is a table until its chart is asked for.
  const keys = keysOf(answer.columns, keyColumns(run.sql, answer.columns, views.value ?? []))
  const drawable = isRead(run.sql) && drawn(answer, keys)
  const shape = answer.columns.map((c) => `${c.name} ${c.type}`).join('\n')
  const asChart = drawable && charts[p.tab] === shape
  const setChart = (on: boolean) => setCharts({ ...charts, [p.tab]: on ? shape : '' })
  const plan = isPlan(run.sql, answer.columns)
  const everything = () => tsv(answer.columns, (i) => answer.rows[i] ?? [], { top: 0, left: 0, bottom: answer.rows.length - 1, right: answer.columns.length - 1 }, true)
  return (
    <section class={`result ${run.state === 'running' ? 'stale' : ''}`} aria-label="Result">
      <div class="result-head">
        <Stamp run={run} />
        <span class="gap" />
        <div class="tools">
        <div class="segments" role="group" aria-label="Show as">
          <Button icon="table" aria-label="Table" title="Table" aria-pressed={!asChart} onClick={() => setChart(false)} />
          <Button icon="chart" aria-label="Chart" title={drawable ? 'Chart' : 'A chart needs a column of numbers'} aria-pressed={asChart} disabled={!drawable} onClick={() => setChart(true)} />
        </div>
        <Menu label="Copy" icon="copy" disabled={answer.rows.length === 0} items={[
          { name: 'Everything', note: 'TSV with a header', act: () => void copy(grid.current?.selectedTsv(true) ?? everything(), plural(answer.rows.length, 'row')) },
          ...(asChart || plan ? [] : [{ name: 'Selection', note: 'TSV', act: () => void copy(grid.current?.selectedTsv(false) ?? '', 'the selection') }]),
          { name: 'As JSON', note: 'rows as objects', act: () => void copy(asJson(run), plural(answer.rows.length, 'row')) },
        ]} />
        <Menu label="Export" icon="down" disabled={!isRead(run.sql)} items={[
          { name: 'CSV', note: 'exact', act: () => void save(run.sql, 'text/csv', 'csv') },
          { name: 'CSV for spreadsheets', note: 'no value becomes a formula', act: () => void save(run.sql, 'text/csv', 'csv', spreadsheetSafe) },
          { name: 'JSON', act: () => void save(run.sql, 'application/json', 'json') },
          { name: 'NDJSON', note: 'one object per line', act: () => void save(run.sql, 'application/x-ndjson', 'ndjson') },
          { name: 'Arrow', note: 'IPC stream', act: () => void save(run.sql, 'application/vnd.apache.arrow.stream', 'arrows') },
        ]} />
        </div>
      </div>
      {answer.backfilling && <p class="truncated" role="note">Not whole yet: {answer.backfilling.map((v) => visible(v)).join(', ')} still {answer.backfilling.length === 1 ? 'reads' : 'read'} old records.</p>}
      {answer.undecoded && <p class="truncated" role="note">{plural(answer.undecoded, 'record')} of the newest could not be decoded and {answer.undecoded === 1 ? 'is' : 'are'} not shown.</p>}
      {lacks(answer, answer.rows.length).map((l) => (
        <p key={l} class="truncated" role="note">{l}{l.startsWith('Cut') ? `: there is more. Add a LIMIT or aggregate${sort ? '; the order is that of these rows alone' : ''}` : '. Older ones are in no figure here: that takes a materialized view'}.</p>
      ))}
      {asChart
        ? <ChartView columns={answer.columns} rows={answer.rows} keys={keys} />
        : plan ? <Plan answer={answer} />
        : answer.columns.length === 0
          ? <Empty title="Done"><p>The statement has no rows to show.</p></Empty>
          : <Grid run={run} grid={grid} sort={sort} setSort={setSort} selected={setSelection} open={(row, column) => setCell({ row, column })} />}
      {!asChart && !plan && answer.columns.length > 0 && <Foot run={run} grid={grid} selection={selection} />}
      {cell && answer.columns[cell.column] && (
        <Dialog title={visible(answer.columns[cell.column]!.name)} wide close={() => { setCell(undefined); document.getElementById('grid')?.focus() }}>
          <Value run={run} {...cell} />
        </Dialog>
      )}
    </section>
  )
}

// drawn reports whether there is a chart of an answer.
const drawn = (a: Answer, keys: readonly number[]) => chartOf(a.columns, a.rows, undefined, keys) !== undefined

// Stamp says which state of the data a result is of.
function Stamp({ run }: { run: Run }) {
  const { answer } = run
  if (!answer) return null
  const behind = epoch.value - answer.epoch // what is known of commits grows with the epoch
  const old = commits.ageOf(answer.epoch, run.answered)
  return (
    <dl class="stamp" aria-label="Version of the result">
      <div><dt>epoch</dt><dd>{count(answer.epoch)}</dd></div>
      {answer.checkpoints && <div title="Checkpoints that it was read from"><dt>from</dt><dd>{answer.checkpoints.map((c) => (c.savepoint === undefined ? `version ${c.id}` : visible(c.savepoint))).join(', ')}</dd></div>}
      <div title="How old the newest data in it was when it was answered"><dt>data</dt><dd>{old === undefined ? '–' : `${duration(old)} old`}</dd></div>
      <div><dt>{answer.rows.length === 1 ? 'row' : 'rows'}</dt><dd>{count(answer.rows.length)}{isCut(answer) ? '+' : ''}</dd></div>
      <div><dt>time</dt><dd>{duration(answer.ms)}</dd></div>
      {!run.live && behind > 0 && (
        <div class="behind" title="Commits since then"><dt>answered</dt><dd>{duration(Math.max(0, now.value - run.answered))} ago, {count(behind)} {behind === 1 ? 'epoch' : 'epochs'} behind</dd></div>
      )}
    </dl>
  )
}

interface GridProps {
  run: Run
  grid: { current: GridView | undefined }
  sort: { column: number; descending: boolean } | undefined
  setSort(s: GridProps['sort']): void
  selected(s: Selection | undefined): void
  open(row: number, column: number): void
}

function Grid({ run, grid, sort, setSort, selected, open }: GridProps) {
  const host = useRef<HTMLDivElement>(null)
  const now = useRef({ sort, setSort })
  now.current = { sort, setSort }
  useEffect(() => {
    const view = (grid.current = new GridView(host.current!, {
      selected,
      open,
      sort: (column) => {
        const { sort, setSort } = now.current
        setSort(sort?.column !== column ? { column, descending: false } : sort.descending ? undefined : { column, descending: true })
      },
    }))
    return () => {
      view.destroy()
      grid.current = undefined
    }
  }, [])
  const answer = run.answer!
  const keys = useMemo(() => keyColumns(run.sql, answer.columns, views.peek() ?? []), [run.sql, answer.columns])
  const order = useMemo(
    () => (sort && answer.columns[sort.column] ? sortRows(answer.rows, sort.column, answer.columns[sort.column]!.type, sort.descending) : undefined),
    [answer, sort],
  )
  const shown = useRef<unknown>(undefined)
  useEffect(() => {
    const fresh = shown.current !== answer
    shown.current = answer
    grid.current?.show({ columns: answer.columns, rows: answer.rows, order, sort, keys }, fresh ? run.changes : undefined)
  }, [answer, order])
  return <div class="grid" id="grid" ref={host} aria-label="Rows" />
}

// Foot names the selected cell, and sums up a larger selection.
function Foot({ run, grid, selection }: { run: Run; grid: { current: GridView | undefined }; selection: Selection | undefined }) {
  const answer = run.answer!
  let text = answer.rows.length === 0 ? 'No row matches.' : 'Click or press Tab for the cells. Enter shows a whole value.'
  if (selection && !isSingle(selection)) {
    const r = rectangle(selection)
    text = `${plural(r.bottom - r.top + 1, 'row')} × ${plural(r.right - r.left + 1, 'column')} selected`
  } else if (selection && answer.columns[selection.column]) {
    const c = answer.columns[selection.column]!
    text = `${visible(c.name)} · ${c.type}`
    if (selection.row >= 0) text += ` · ${visible(grid.current?.selectedTsv(false).slice(0, 300) ?? '')}`
  }
  return <p class="foot">{text}</p>
}

// Value shows one value whole.
function Value({ run, row, column }: { run: Run; row: number; column: number }) {
  const c = run.answer!.columns[column]!
  const v = run.answer!.rows[row]?.[column]
  const text = v === null || v === undefined ? 'NULL' : kindOf(c.type) === 'nested' ? pretty(v) : textOf(v, c.type)
  return (
    <>
      <p class="hint">{c.type} · row {count(row + 1)}{typeof v === 'string' ? ` · ${plural([...v].length, 'character')}` : ''}</p>
      <pre class={`value ${v === null ? 'is-null' : ''}`}>{visible(text, '\n\t')}</pre>
      <Button icon="copy" disabled={v === null} onClick={() => void copy(textOf(v, c.type), 'the value')}>Copy</Button>
    </>
  )
}

function pretty(v: Parameters<typeof stringify>[0], indent = ''): string {
  if (v === null || typeof v !== 'object') return stringify(v)
  const inner = indent + '  '
  const parts = Array.isArray(v)
    ? v.map((e) => inner + pretty(e, inner))
    : Object.entries(v).map(([k, e]) => `${inner}${JSON.stringify(k)}: ${pretty(e, inner)}`)
  const [open, close] = Array.isArray(v) ? '[]' : '{}'
  return parts.length === 0 ? `${open}${close}` : `${open}\n${parts.join(',\n')}\n${indent}${close}`
}

function Waiting({ run }: { run: Run }) {
  return (
    <section class="result" aria-label="Result" aria-busy="true">
      <Empty title="Running …"><p>{duration(Math.max(0, now.value - run.started))} so far. <kbd>Esc</kbd> cancels.</p></Empty>
    </section>
  )
}

function Failure({ run, goTo, place }: Props) {
  const error = run.error
  if (!error) return null
  const index = errorIndex(run)
  const at = index === undefined ? undefined : place(index)
  return (
    <section class="result" aria-label="Result">
      <div class="failure" role="alert">
        <h2>{error.offline ? 'No answer' : 'The statement was refused'}{at && <>{' '}<button type="button" class="as-link" onClick={() => goTo(index!)}>line {at.line}, column {at.column}</button></>}</h2>
        <pre>{visible(error.message, '\n\t')}</pre>
        {error.code !== '' && <p class="hint">{visible(error.code)}{run.live ? '' : ` · after ${duration(Math.max(0, Date.now() - run.started))}`}</p>}
      </div>
    </section>
  )
}

function First({ open }: Pick<Props, 'open'>) {
  const list = examples(views.value ?? [], sources.value ?? [], readOnly.value !== '')
  return (
    <section class="result" aria-label="Result">
      <Empty title="No result yet">
        {sources.value?.length === 0 && <p>Nothing is connected. The statement above makes a source of a Kafka topic; <code>weir demo</code> comes with one.</p>}
        <p>Press <kbd>{/Mac/.test(navigator.platform) ? '⌘' : 'Ctrl'}</kbd> <kbd>Enter</kbd> to run the statement at the cursor{list.length > 0 ? ', or start from one of these.' : '.'}</p>
        <ul class="examples">
          {list.map((e) => (
            <li key={e.title}>
              <button type="button" onClick={() => open(e.sql, isRead(e.sql))}>
                <strong>{visible(e.title)}</strong>
                <code>{visible(e.sql, '\n')}</code>
              </button>
            </li>
          ))}
        </ul>
      </Empty>
    </section>
  )
}

function asJson(run: Run): string {
  const { columns, rows } = run.answer!
  const lines = rows.map((r) => '{' + columns.map((c, i) => JSON.stringify(c.name) + ': ' + stringify(r[i] ?? null)).join(', ') + '}')
  return `[\n${lines.join(',\n')}\n]`
}

// save runs the statement again for a file. The name carries the epoch, for it may be a newer one than that on screen.
async function save(sql: string, accept: string, extension: string, change?: (text: string) => string) {
  try {
    const got = await exportSql(sql, accept)
    const blob = change ? new Blob([change(await got.blob.text())], { type: accept }) : got.blob
    const a = document.createElement('a')
    a.href = URL.createObjectURL(blob)
    a.download = `weir-epoch-${got.epoch || 'unknown'}.${extension}`
    a.click()
    setTimeout(() => URL.revokeObjectURL(a.href), 60_000)
    toast(got.truncated ? `Saved ${a.download}, which is not whole. ${lacks(got).join('. ')}` : `Saved ${a.download}`, got.truncated)
  } catch (err) {
    toast(`Not exported: ${visible((err as Error).message)}`, true)
  }
}

