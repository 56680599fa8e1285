// The checkpoints: what there is to go back to, one to take now, savepoints to keep and drop, and two to compare.

import { useEffect, useState } from 'preact/hooks'
import { dropSavepoint, getCheckpoints, takeCheckpoint } from '../api/client.ts'
import type { Checkpoint } from '../api/types.ts'
import { visible } from '../grid/text.ts'
import { quoteName } from '../sql/suggest.ts'
import { views } from '../store/catalog.ts'
import { now, online, readOnly, visible as pageVisible } from '../store/connection.ts'
import { toast } from '../store/toast.ts'
import { ago, bytes, count, moment } from '../ui/format.ts'
import { openInEditor } from '../ui/open.ts'
import { Button, Dialog, Empty } from '../ui/parts.tsx'
import type { Point } from '../sql/past.ts'
import { Compare } from './compare.tsx'

const shownViews = 4

export function CheckpointsPage() {
  const [all, setAll] = useState<readonly Checkpoint[] | undefined>()
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  const [naming, setNaming] = useState(false)
  const [dropping, setDropping] = useState<Checkpoint | undefined>()
  const [chosen, setChosen] = useState<{ from: Point; to: Point } | undefined>()
  const read = () => getCheckpoints().then((c) => { setAll([...c].sort((a, b) => b.id - a.id)); setError('') }, (err: Error) => setError(err.message))
  useEffect(() => {
    void read()
    const timer = setInterval(() => pageVisible.peek() && void read(), 5000)
    return () => clearInterval(timer)
  }, [])
  const take = async () => {
    setBusy(true)
    try {
      await takeCheckpoint()
      await read()
      toast('Checkpoint written')
    } catch (err) {
      toast(`No checkpoint: ${visible((err as Error).message)}`, true)
    }
    setBusy(false)
  }
  const drop = async (c: Checkpoint) => {
    setDropping(undefined)
    try {
      await dropSavepoint(c.id)
      await read()
      toast(`Dropped ${visible(c.savepoint ?? '')}`)
    } catch (err) {
      toast(`Not dropped: ${visible((err as Error).message)}`, true)
    }
  }
  const buttons = (
    <>
      <Button look="primary" disabled={busy} onClick={take}>{busy ? 'Writing …' : 'Take a checkpoint'}</Button>
      <Button onClick={() => setNaming(true)}>Savepoint …</Button>
    </>
  )
  const { from, to } = chosen ?? { from: all?.[0]?.id ?? 'live', to: 'live' as const }
  return (
    <div class="page">
      <div class="page-head">
        <h1>Checkpoints</h1>
        <p class="hint">The state of all views as Arrow files.{readOnly.value === '' && ' Ingest goes on while one is written.'}</p>
        <span class="gap" />
        {(all?.length ?? 0) > 0 && readOnly.value === '' && buttons}
      </div>
      {error && online.value && <p class="error-box">{visible(error)}</p>}
      {all?.length === 0 && readOnly.value !== '' && (
        <Empty title="No others">
          <p>What is shown is {visible(readOnly.value)}. It is open alone: the checkpoints beside it are not, and none can be taken.</p>
          <p>To compare two of them: <code>weir checkpoint diff</code>. To make an appliance of this one: <code>weir restore</code></p>
        </Empty>
      )}
      {all?.length === 0 && readOnly.value === '' && (
        <Empty title="No checkpoint yet">
          <p>Weir takes one every few minutes by itself. In SQL: <code>CHECKPOINT</code></p>
          {buttons}
        </Empty>
      )}
      {all && all.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="All checkpoints">
          <table class="checkpoints">
            <thead><tr><th scope="col">Version</th><th scope="col">Taken</th><th scope="col" class="num">Epoch</th><th scope="col" class="num">Size</th><th scope="col">Views</th><th scope="col"><span class="off-screen">Actions</span></th></tr></thead>
            <tbody>
              {all.map((c) => (
                <tr key={c.id}>
                  <th scope="row">{count(c.id)}{c.savepoint !== undefined && <span class="badge key-badge">{visible(c.savepoint)}</span>}</th>
                  <td>{moment(c.created, now.value)} <span class="dim">{ago(Math.max(0, now.value - Date.parse(c.created)))}</span></td>
                  <td class="num"><span class="narrow">epoch </span>{count(c.epoch)}</td>
                  <td class="num">{bytes(c.bytes)}</td>
                  <td class="wrap views" title={names(c).map((n) => visible(n)).join(', ')}>{viewsOf(c)}</td>
                  <td class="actions">
                    {c.savepoint !== undefined && readOnly.value === '' && <Button look="quiet" onClick={() => setDropping(c)}>Drop<span class="off-screen"> {visible(c.savepoint)}</span></Button>}
                    <Button look="quiet" onClick={() => setChosen({ from: c.id, to: 'live' })} aria-pressed={from === c.id}>Compare<span class="off-screen"> version {c.id}</span></Button>
                    <Button look="quiet" icon="play" onClick={() => openInEditor(atVersion(c), true)}>Query<span class="off-screen"> version {c.id}</span></Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {all && all.length > 0 && (
        <Compare all={all} from={from} to={to} choose={(from, to) => setChosen({ from, to })} />
      )}
      {all && all.length > 0 && (
        <p class="hint">A checkpoint opens without Weir: <code>pyarrow.ipc.open_file('views/….arrow').read_all()</code>. To start again from one: <code>weir restore --from DIR --data DIR</code></p>
      )}
      {naming && <NewSavepoint close={() => setNaming(false)} done={read} />}
      {dropping && (
        <Dialog title="Drop a savepoint" close={() => setDropping(undefined)}>
          <p>Savepoint <strong>{visible(dropping.savepoint ?? '')}</strong> (version {dropping.id}) will be gone for good.</p>
          <p class="dialog-foot">
            <Button data-first onClick={() => setDropping(undefined)}>Keep it</Button>
            <Button look="danger" onClick={() => void drop(dropping)}>Drop it</Button>
          </p>
        </Dialog>
      )}
    </div>
  )
}

function NewSavepoint({ close, done }: { close(): void; done(): Promise<void> }) {
  const [name, setName] = useState('')
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  const submit = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    try {
      await takeCheckpoint(name)
      await done()
      toast(`Savepoint ${visible(name)} written`)
      close()
    } catch (err) {
      setError((err as Error).message)
      setBusy(false)
    }
  }
  return (
    <Dialog title="Create a savepoint" close={close}>
      <form class="lookup" onSubmit={submit}>
        <label>
          <span>Name</span>
          <input class="field" data-first required maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} />
        </label>
        <Button type="submit" look="primary" disabled={busy}>{busy ? 'Writing …' : 'Create'}</Button>
      </form>
      <div role="status">{error && <p class="error-box">{visible(error)}</p>}</div>
      <p class="hint">A checkpoint that stays until it is dropped. In SQL: <code>CREATE SAVEPOINT 'name'</code></p>
    </Dialog>
  )
}

// viewsOf names some of the views in it, and counts the others.
function viewsOf(c: Checkpoint): string {
  const all = names(c).map((n) => visible(n))
  if (all.length === 0) return typeof c.views === 'number' ? count(c.views) : ''
  return all.length <= shownViews + 1 ? all.join(', ') : `${all.slice(0, shownViews).join(', ')} and ${all.length - shownViews} more`
}

// names copes with a list of names, and with a list of objects that have one.
function names(c: Checkpoint): string[] {
  if (!Array.isArray(c.views)) return []
  return (c.views as unknown[]).map((v) => (typeof v === 'string' ? v : String((v as { name?: unknown })?.name ?? '')))
}

function atVersion(c: Checkpoint): string {
  const name = names(c)[0] ?? views.peek()?.find((v) => v.kind === 'materialized')?.name ?? 'a_view'
  return `SELECT * FROM ${quoteName(name)} AT (VERSION => ${c.id}) LIMIT 100`
}
