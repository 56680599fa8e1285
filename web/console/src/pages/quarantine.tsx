// The records of a source that could not be used: why, and what was in them.

import { useEffect, useState } from 'preact/hooks'
import { getQuarantine } from '../api/client.ts'
import type { Refused } from '../api/types.ts'
import { visible } from '../grid/text.ts'
import { now } from '../store/connection.ts'
import { count, moment, plural } from '../ui/format.ts'
import { Button, copy, Dialog } from '../ui/parts.tsx'
import { payload } from './payload.ts'

const limit = 200

export function Quarantine({ source, close }: { source: string; close(): void }) {
  const [records, setRecords] = useState<readonly Refused[] | undefined>()
  const [error, setError] = useState('')
  const read = () => {
    setError('')
    getQuarantine(source, limit).then(setRecords, (err: Error) => setError(err.message))
  }
  useEffect(read, [source])
  const reasons = new Map<string, number>()
  for (const r of records ?? []) reasons.set(r.reason, (reasons.get(r.reason) ?? 0) + 1)
  return (
    <Dialog title={`Quarantine of ${visible(source)}`} wide close={close}>
      <div class="history-head">
        <p class="hint">{records ? `${plural(records.length, 'refusal')}${records.length === limit ? ', the newest' : ''}, ${plural(reasons.size, 'reason')}. A record that several views refuse is counted once for each.` : 'Loading …'}</p>
        <span class="gap" />
        <Button onClick={read}>Refresh</Button>
      </div>
      {error && <p class="error-box">{visible(error)}</p>}
      {records?.length === 0 && <p class="hint">Every record so far could be used.</p>}
      <ul class="refused">
        {records?.map((r) => <Entry key={`${r.partition}/${r.offset}/${r.view ?? ''}`} record={r} />)}
      </ul>
    </Dialog>
  )
}

function Entry({ record: r }: { record: Refused }) {
  const p = payload(r.value)
  return (
    <li>
      <p class="refused-reason">{visible(r.reason, '\n')}</p>
      <p class="refused-where">
        <span>partition {r.partition}, offset {count(r.offset)}</span>
        <span>{moment(r.timestamp, now.value)}</span>
        {r.view && <span>view {visible(r.view)}</span>}
        {r.column && <span>column {visible(r.column)}</span>}
        <span>{p.kind === 'tombstone' ? 'no value (a tombstone)' : p.kind === 'empty' ? 'an empty value' : plural(p.size, 'byte')}</span>
        {p.kind === 'hex' && <span>not UTF-8</span>}
        {p.text !== '' && <Button look="quiet" icon="copy" onClick={() => void copy(p.text, 'the payload')}>Copy<span class="off-screen"> the payload of offset {r.offset}</span></Button>}
      </p>
      {p.text !== '' && <pre class="value" tabIndex={0} role="group" aria-label="Payload">{visible(p.text, '\n\t')}</pre>}
    </li>
  )
}
