// Requests to the appliance. Every function throws ApiError and nothing else, except for AbortError when the caller
// aborted. The session is a cookie that the server sets; no token is kept here.

import { parse } from './json.ts'
import type { Checkpoint, Lookup, Refused, Source, SqlAnswer, Status, View } from './types.ts'

// ApiError is a refusal by the server, or its absence (status 0).
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly position?: number, // byte offset in the SQL that was sent
  ) {
    super(message)
  }

  get offline(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504
  }
}

export type Answer = SqlAnswer & { ms: number }

export interface SqlRequest { sql: string; id?: string; signal?: AbortSignal }

// runSql runs one statement. The answer's epoch is that of the snapshot it was computed from.
export async function runSql({ sql, id, signal }: SqlRequest): Promise<Answer> {
  const start = performance.now()
  const res = await send('/api/v1/sql', { method: 'POST', body: { sql, params: [] }, id, signal })
  const text = await body(res)
  const ms = performance.now() - start
  const got = read<SqlAnswer>(text)
  return {
    columns: got.columns ?? [],
    rows: got.rows ?? [],
    epoch: got.epoch ?? Number(res.headers.get('Weir-Epoch') ?? 0),
    ...(got.checkpoints && { checkpoints: got.checkpoints }),
    ...(got.undecoded && { undecoded: got.undecoded }),
    ...(got.backfilling && { backfilling: got.backfilling }),
    ...(got.partial && got.partial.length > 0 && { partial: got.partial }),
    ...(got.rows_cut && { rows_cut: true }),
    truncated: got.truncated === true || res.headers.get('Weir-Truncated') === '1',
    ms,
  }
}

// exportSql runs the statement again and returns the answer in another form, with its epoch.
export async function exportSql(sql: string, accept: string, signal?: AbortSignal) {
  const res = await send('/api/v1/sql', { method: 'POST', body: { sql, params: [] }, accept, signal })
  const partial = res.headers.get('Weir-Partial')
  const blob = await res.blob().catch((err) => fail(err, 'the answer ended early; nothing was saved'))
  return {
    blob,
    epoch: res.headers.get('Weir-Epoch') ?? '',
    ...(partial && { partial: partial.split(',').map(decodeURIComponent) }),
    ...(res.headers.get('Weir-Rows-Cut') === '1' && { rows_cut: true }),
    truncated: res.headers.get('Weir-Truncated') === '1',
  }
}

// cancelSql stops a running statement. Not finding it any more is not an error.
export async function cancelSql(id: string): Promise<void> {
  await send(`/api/v1/queries/${encodeURIComponent(id)}`, { method: 'DELETE' }).catch((err: unknown) => {
    if (!(err instanceof ApiError && err.status === 404)) throw err
  })
}

// getStatus also tells the server's clock, in whole seconds; NaN when the answer has no date.
export async function getStatus(signal?: AbortSignal) {
  const res = await send('/api/v1/status', { signal })
  return { status: read<Status>(await body(res)), serverTime: Date.parse(res.headers.get('Date') ?? '') }
}

// An empty list may come as null. Below this line there are lists only.
export async function getViews(): Promise<View[]> {
  const { views } = await get<{ views: View[] | null }>('/api/v1/views')
  return (views ?? []).map((v) => ({ ...v, columns: v.columns ?? [], positions: v.positions ?? [] }))
}

export async function getSources(): Promise<Source[]> {
  const { sources } = await get<{ sources: Source[] | null }>('/api/v1/sources')
  return (sources ?? []).map((s) => ({ ...s, columns: s.columns ?? [], partitions: s.partitions ?? [] }))
}

export const getCheckpoints = async () =>
  (await get<{ checkpoints: Checkpoint[] | null }>('/api/v1/checkpoints')).checkpoints ?? []

// takeCheckpoint writes one now; a name makes it a savepoint.
export async function takeCheckpoint(savepoint = ''): Promise<void> {
  await body(await send('/api/v1/checkpoints', { method: 'POST', body: savepoint === '' ? {} : { savepoint } }))
}

export async function dropSavepoint(id: number): Promise<void> {
  await body(await send(`/api/v1/checkpoints/${id}`, { method: 'DELETE' }))
}

export const getQuarantine = async (source: string, limit: number) =>
  (await get<{ records: Refused[] | null }>(`/api/v1/sources/${encodeURIComponent(source)}/quarantine?limit=${limit}`))
    .records ?? []

// lookup finds one group by its key columns, given as the user typed them. Null: there is no such group.
export async function lookup(view: string, key: Record<string, string>): Promise<Lookup | null> {
  try {
    return await get<Lookup>(`/api/v1/views/${encodeURIComponent(view)}/lookup?${new URLSearchParams(key)}`)
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return null
    throw err
  }
}

export async function login(token: string): Promise<void> {
  await body(await send('/api/v1/login', { method: 'POST', body: { token } }))
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return read<T>(await body(await send(path, { signal })))
}

interface Options { method?: string; body?: unknown; id?: string; accept?: string; signal?: AbortSignal }

async function send(path: string, o: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: o.accept ?? 'application/json' }
  if (o.body !== undefined) headers['Content-Type'] = 'application/json'
  if (o.id !== undefined) headers['Weir-Query'] = o.id
  const init: RequestInit = { method: o.method ?? 'GET', headers, credentials: 'same-origin', cache: 'no-store' }
  if (o.body !== undefined) init.body = JSON.stringify(o.body)
  if (o.signal) init.signal = o.signal
  const res = await fetch(path, init).catch((err) => fail(err, 'Weir does not answer'))
  if (!res.ok) throw refusal(res.status, await body(res))
  return res
}

const body = (res: Response) => res.text().catch((err) => fail(err, 'the answer ended early'))

function fail(err: unknown, message: string): never {
  if (err instanceof DOMException && err.name === 'AbortError') throw err // a timeout is an absence
  throw new ApiError(0, 'OFFLINE', message)
}

function read<T>(text: string): T {
  try {
    return parse(text) as T
  } catch (err) {
    throw new ApiError(500, 'BAD_ANSWER', `the answer is not JSON: ${(err as Error).message}`)
  }
}

function refusal(status: number, text: string): ApiError {
  try {
    const { code, message, position } = (JSON.parse(text) as { error: Record<string, unknown> }).error
    return new ApiError(
      status,
      typeof code === 'string' ? code : String(status),
      typeof message === 'string' && message !== '' ? message : `the server answered ${status}`,
      typeof position === 'number' ? position : undefined,
    )
  } catch {
    return new ApiError(status, String(status), `the server answered ${status}`)
  }
}
