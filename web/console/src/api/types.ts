// The answers of the HTTP API, as the server documents them. A field with `?` may be absent.

import type { Json } from './json.ts'

export interface Column { name: string; type: string }
export type Row = Json[]

// What an answer lacks: `partial` names the sources of which only the newest records were read, rows_cut is true when
// there were more rows than an answer holds. Where neither is there, truncated says that one of the two is so.
export interface Whole { truncated?: boolean; partial?: string[]; rows_cut?: boolean }

// A checkpoint that an answer was read from. An answer without one is of the present.
export interface Past { id: number; epoch: number; savepoint?: string }

export interface SqlAnswer extends Whole { columns: Column[]; rows: Row[]; epoch: number; checkpoints?: Past[]; backfilling?: string[]; undecoded?: number }

export interface Position { topic: string; partition: number; next: number }

export interface ViewColumn extends Column { role?: 'key' | 'result' }

export type State = 'running' | 'backfilling' | 'waiting' | 'idle' | 'stopped'

export interface View {
  name: string
  kind: 'materialized' | 'view'
  sql: string
  source: string
  columns: ViewColumn[]
  groups: number | null // null for a plain view
  bytes: number
  epoch: number
  positions: Position[]
  lag: number | null // null while nobody knows
  rate: number
  state: State
  error?: string
  quarantined: number // records that this view refused
  export?: Export
}

// Export is where a view is exported to after checkpoints; from epoch on it is of the newest export, zero and null before there is one.
export interface Export {
  format: 'iceberg' | 'parquet'
  target: string
  every_s?: number
  keep: number
  epoch: number
  checkpoint: number
  at: string | null
  rows: number
  bytes: number
  whole: boolean
  error?: string
}

export interface Partition { partition: number; next: number; end: number | null; lag: number | null }

export interface Source {
  name: string
  sql: string
  connector: string
  topic: string
  format: string
  columns: Column[]
  state: State
  error?: string
  rate: number
  lag: number | null // null while nobody knows
  partitions: Partition[]
  quarantined: number // refusals: a record counts once for each view that refused it
  records: number
}

export interface Refused {
  partition: number
  offset: number
  timestamp: string
  view?: string
  column?: string
  reason: string
  value: string | null // base64; null is a tombstone
}

export interface Checkpoint { id: number; savepoint?: string; epoch: number; created: string; bytes: number; views: string[] | number }

export interface Status {
  epoch: number
  state: string
  committed: string | null // RFC 3339: when the newest epoch was that made the data younger; null while nobody knows
  uptime_s: number
  memory: number
  rate: number
  freshness_ms: number
  version: string
  waiting?: string[] // sources that wait for their broker or topic, or have stopped; absent when none does
  read_only?: string // what weir open shows; absent where records are counted
}

export interface EpochEvent { epoch: number; committed: string | null }

export interface Lookup { key: { [name: string]: Json }; value: { [name: string]: Json }; epoch: number }
