// The checkpoints: what there is to go back to, and one to take now.

import { useEffect, useState } from 'preact/hooks'
import { getCheckpoints, takeCheckpoint } from '../api/client.ts'
import type { Checkpoint } from '../api/types.ts'
import { visible } from '../grid/text.ts'
import { quoteName } from '../sql/suggest.ts'
import { views } from '../store/catalog.ts'
import { now, online, visible as pageVisible } from '../store/connection.ts'
import { toast } from '../store/toast.ts'
import { ago, bytes, count, moment } from '../ui/format.ts'
import { openInEditor } from '../ui/open.ts'
import { Button, Empty } from '../ui/parts.tsx'

export function CheckpointsPage() {
  const [all, setAll] = useState<readonly Checkpoint[] | undefined>()
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
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
  const button = <Button look="primary" disabled={busy} onClick={take}>{busy ? 'Writing …' : 'Take a checkpoint'}</Button>
  return (
    <div class="page">
      <div class="page-head">
        <h1>Checkpoints</h1>
        <p class="hint">The state of all views as Arrow files. Ingest goes on while one is written.</p>
        <span class="gap" />
        {(all?.length ?? 0) > 0 && button}
      </div>
      {error && online.value && <p class="error-box">{visible(error)}</p>}
      {all?.length === 0 && (
        <Empty title="No checkpoint yet">
          <p>Weir takes one every few minutes by itself. In SQL: <code>CHECKPOINT</code></p>
          {button}
        </Empty>
      )}
      {all && all.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="All checkpoints">
          <table>
            <thead><tr><th scope="col">Version</th><th scope="col">Taken</th><th scope="col" class="num">Epoch</th><th scope="col" class="num">Size</th><th scope="col">Views</th><th scope="col"><span class="off-screen">Actions</span></th></tr></thead>
            <tbody>
              {all.map((c) => (
                <tr key={c.id}>
                  <th scope="row">{count(c.id)}{c.name && <span class="badge key-badge">{visible(c.name)}</span>}</th>
                  <td>{moment(c.created, now.value)} <span class="dim">{ago(Math.max(0, now.value - Date.parse(c.created)))}</span></td>
                  <td class="num">{count(c.epoch)}</td>
                  <td class="num">{bytes(c.bytes)}</td>
                  <td class="wrap">{names(c).length > 0 ? names(c).map((n) => visible(n)).join(', ') : typeof c.views === 'number' ? count(c.views) : ''}</td>
                  <td class="actions"><Button look="quiet" icon="play" onClick={() => openInEditor(atVersion(c), true)}>Query<span class="off-screen"> version {c.id}</span></Button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {all && all.length > 0 && (
        <p class="hint">A checkpoint opens without Weir: <code>pyarrow.ipc.open_file('views/….arrow').read_all()</code>. To start again from one: <code>weir restore --from DIR --data DIR</code></p>
      )}
    </div>
  )
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
