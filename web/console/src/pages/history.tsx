// What was run here, to look up and open again.

import { useState } from 'preact/hooks'
import { visible } from '../grid/text.ts'
import { now } from '../store/connection.ts'
import { clearHistory, history } from '../store/history.ts'
import { count, duration, moment, plural } from '../ui/format.ts'
import { Button, Dialog } from '../ui/parts.tsx'

export function History(p: { close(): void; open(sql: string): void }) {
  const [filter, setFilter] = useState('')
  const found = history.value.filter((h) => h.sql.toLowerCase().includes(filter.toLowerCase()))
  return (
    <Dialog title="History" wide close={p.close}>
      <div class="history-head">
        <input type="search" class="field" data-first aria-label="Search the history" placeholder="Search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
        <Button disabled={history.value.length === 0} onClick={clearHistory}>Clear</Button>
      </div>
      {found.length === 0 && <p class="hint">{history.value.length === 0 ? 'Nothing was run in this browser yet.' : 'Nothing matches.'}</p>}
      <ul class="history">
        {found.map((h) => (
          <li key={h.at + h.sql}>
            <button type="button" onClick={(e) => { e.currentTarget.closest('dialog')?.close(); p.open(h.sql) }}>
              <code>{visible(h.sql.length > 400 ? h.sql.slice(0, 400) + '…' : h.sql, '\n\t')}</code>
              <small>
                <span>{moment(h.at, now.value)}</span>
                <span>{duration(h.ms)}</span>
                {h.error === undefined
                  ? <><span>{plural(h.rows ?? 0, 'row')}</span><span>epoch {count(h.epoch)}</span></>
                  : <span class="bad-text">{visible(h.error.slice(0, 160).replace(/\s+/g, ' '))}</span>}
              </small>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  )
}
