// The catalogue beside the editor: views and sources with their columns.

import { useState } from 'preact/hooks'
import type { ViewColumn } from '../api/types.ts'
import { visible } from '../grid/text.ts'
import { queryOf } from '../sql/examples.ts'
import { quoteName } from '../sql/suggest.ts'
import { catalogError, sources, views } from '../store/catalog.ts'
import { readOnly } from '../store/connection.ts'
import { troubleOf } from '../ui/condition.ts'
import { Button, Icon } from '../ui/parts.tsx'
import { count } from '../ui/format.ts'

interface Actions { insert(text: string): void; open(sql: string, run: boolean): void }

export function Catalog(a: Actions) {
  const [filter, setFilter] = useState('')
  const match = (x: { name: string; columns: readonly ViewColumn[] }) =>
    filter === '' || x.name.toLowerCase().includes(filter.toLowerCase()) || x.columns.some((c) => c.name.toLowerCase().includes(filter.toLowerCase()))
  const loading = views.value === undefined
  const kept = (views.value ?? []).filter(match)
  const read = (sources.value ?? []).filter(match)
  return (
    <aside class="catalog" aria-label="Catalogue">
      <div class="filter">
        <Icon name="search" />
        <input type="search" placeholder="Find a view or column" aria-label="Find a view or column" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
      </div>
      {loading && <p class="hint">{catalogError.value || 'Loading …'}</p>}
      {!loading && (
        <>
          <h2>Views</h2>
          {kept.map((v) => <Entry key={v.name} {...a} relation={v} note={v.kind === 'materialized' ? count(v.groups) : 'view'} trouble={v.kind === 'materialized' && readOnly.value === '' ? troubleOf(v) : undefined} />)}
          {kept.length === 0 && <p class="hint">{filter ? 'None matches.' : 'None yet. CREATE MATERIALIZED VIEW makes one.'}</p>}
          <h2>Sources</h2>
          {read.map((s) => <Entry key={s.name} {...a} relation={s} note={s.format} trouble={readOnly.value === '' ? troubleOf(s) : undefined} unread={readOnly.value !== ''} />)}
          {read.length === 0 && <p class="hint">{filter ? 'None matches.' : 'None yet. CREATE SOURCE connects a topic.'}</p>}
        </>
      )}
    </aside>
  )
}

// Entry is one of them. No query reads an `unread` source.
function Entry({ relation, note, trouble, unread, insert, open }: Actions & { relation: { name: string; columns: readonly ViewColumn[] }; note: string; trouble: ReturnType<typeof troubleOf>; unread?: boolean }) {
  const [unfolded, setUnfolded] = useState(false)
  const name = visible(relation.name)
  return (
    <div class="entry">
      <div class="entry-head">
        <button type="button" class="entry-name" aria-expanded={unfolded} onClick={() => setUnfolded(!unfolded)} title={name}>
          <Icon name="right" />
          <span>{name}</span>
          <small class={trouble?.look ?? ''}>{trouble?.text ?? note}</small>
        </button>
        {!unread && <Button look="quiet" icon="play" aria-label={`Query ${name}`} title={`Query ${name}`} onClick={() => open(queryOf(relation), true)} />}
      </div>
      {unfolded && (
        <ul>
          {relation.columns.map((c) => (
            <li key={c.name}>
              <button type="button" title={`Insert ${visible(c.name)}`} onClick={() => insert(quoteName(c.name))}>
                <span class={c.role === 'key' ? 'key' : ''}>{visible(c.name)}{c.role === 'key' && <span class="off-screen"> (key)</span>}</span>
                <small>{c.type}</small>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
