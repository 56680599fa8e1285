// A small appliance for the browser tests and for work on the console without a real one: the HTTP API over made-up
// numbers, with the content security policy that the real server sends. It runs no SQL; it knows some words.
//
//   node test/fake/server.mjs 8080

import { createServer } from 'node:http'
import { readFile } from 'node:fs/promises'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

const dist = fileURLToPath(new URL('../../dist/', import.meta.url))

export const csp =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

export const evil = '<img src=x onerror="document.title=\'owned\'">'

const mime = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.txt': 'text/plain' }

const cities = ['Paris', 'Berlin', 'Lisbon', 'Kraków', 'Oslo', 'Athens', 'São Paulo', '東京', 'Nairobi', 'Lima', 'Quito', 'Tunis']

// Fake is one appliance. Its fields are for tests to change while it runs.
export class Fake {
  epoch = 18_204
  committed = Date.now()
  uptime = 4211
  ticking = true
  down = false
  token = '' // when set, requests need the cookie
  empty = false
  readOnly = '' // what weir open shows
  states = {} // by the name of a view or source, what is to be said of it: { state, error }
  cancelled = [] // ids of queries that were cancelled
  queries = [] // every SQL text, in order
  events = new Set()
  running = new Map()
  checkpoints = [
    { id: 40, savepoint: "before 'launch'", epoch: 16_004, created: new Date(Date.now() - 7_200_000).toISOString(), bytes: 1_700_201, views: ['revenue_by_city', 'orders_by_minute'] },
    { id: 41, epoch: 17_020, created: new Date(Date.now() - 360_000).toISOString(), bytes: 1_834_211, views: ['revenue_by_city', 'orders_by_minute'] },
    { id: 42, epoch: 18_101, created: new Date(Date.now() - 61_000).toISOString(), bytes: 1_902_844, views: ['revenue_by_city', 'orders_by_minute'] },
  ]

  constructor() {
    this.revenue = cities.map((city, i) => [city, 900 - i * 61, (48_211.5 / (i + 1)).toFixed(2), 53.57 - i * 1.25, '2026-11-29T14:03:07.123'])
    this.server = createServer((req, res) => this.serve(req, res).catch((err) => { res.statusCode = 500; res.end(String(err)) }))
    this.timer = setInterval(() => this.ticking && this.tick(), 250)
  }

  async listen(port = 0) {
    await new Promise((done) => this.server.listen(port, '127.0.0.1', done))
    return `http://127.0.0.1:${this.server.address().port}/`
  }

  close() {
    clearInterval(this.timer)
    this.server.closeAllConnections()
    return new Promise((done) => this.server.close(done))
  }

  // tick is one commit: some cities sell something.
  tick() {
    this.epoch++
    this.committed = Date.now()
    const row = this.revenue[this.epoch % this.revenue.length]
    row[1]++
    row[2] = (Number(row[2]) + 19.99).toFixed(2)
    for (const res of this.events) res.write(`event: epoch\ndata: ${JSON.stringify({ epoch: this.epoch, committed: new Date(this.committed).toISOString() })}\n\n`)
  }

  async serve(req, res) {
    const url = new URL(req.url, 'http://x')
    if (this.down) return req.socket.destroy()
    if (!url.pathname.startsWith('/api/')) return this.file(url.pathname, res)
    res.setHeader('Cache-Control', 'no-store')
    if (url.pathname === '/api/v1/login') return this.login(req, res)
    if (this.token !== '' && !(req.headers.cookie ?? '').includes('weir=' + this.token)) return refuse(res, 401, 'UNAUTHENTICATED', 'log in first')
    const rate = 1180 + Math.round(140 * Math.sin(this.epoch / 9))
    switch (url.pathname) {
      case '/api/v1/sql': return this.sql(req, res)
      case '/api/v1/status': return json(res, {
        epoch: this.epoch, state: 'RUNNING', committed: new Date(this.committed).toISOString(), uptime_s: this.uptime, memory: 148_000_000, rate, freshness_ms: 214, version: '0.1.0', ...this.waiting(), ...(this.readOnly && { read_only: this.readOnly }),
      })
      case '/api/v1/views': return json(res, { views: this.empty ? [] : this.said(this.views(rate)) })
      case '/api/v1/sources': return json(res, { sources: this.empty ? null : this.said(this.sources(rate)) })
      case '/api/v1/checkpoints':
        if (req.method === 'POST') {
          const { savepoint } = JSON.parse(await read(req))
          if (savepoint === 'live') return refuse(res, 400, 'bad_request', 'a savepoint cannot be named "live": that is the present; choose another name')
          this.checkpoints.push({ id: 43, ...(savepoint !== undefined && { savepoint }), epoch: this.epoch, created: new Date().toISOString(), bytes: 1_911_002, views: ['revenue_by_city', 'orders_by_minute'] })
        }
        return json(res, { checkpoints: this.empty || this.readOnly ? [] : this.checkpoints })
      case '/api/v1/events':
        res.writeHead(200, { 'Content-Type': 'text/event-stream' })
        res.write(': ok\n\n')
        this.events.add(res)
        res.on('close', () => this.events.delete(res))
        return
      case '/api/v1/sources/orders/quarantine': return json(res, { records: this.refused() })
    }
    const query = /^\/api\/v1\/queries\/(.+)$/.exec(url.pathname)
    if (query && req.method === 'DELETE') {
      const id = decodeURIComponent(query[1])
      this.cancelled.push(id)
      this.running.get(id)?.()
      return json(res, {})
    }
    const checkpoint = /^\/api\/v1\/checkpoints\/(\d+)$/.exec(url.pathname)
    if (checkpoint && req.method === 'DELETE') {
      this.checkpoints = this.checkpoints.filter((c) => c.id !== Number(checkpoint[1]))
      res.statusCode = 204
      return res.end()
    }
    if (url.pathname.endsWith('/lookup')) {
      const row = this.revenue.find((r) => r[0] === url.searchParams.get('city'))
      if (!row) return refuse(res, 404, 'NOT_FOUND', 'no such group')
      return json(res, { key: { city: row[0] }, value: { orders: row[1], revenue: row[2], avg_order: row[3], last_order: null }, epoch: this.epoch })
    }
    refuse(res, 404, 'NOT_FOUND', 'no such route')
  }

  async file(path, res) {
    const name = normalize(path === '/' ? '/index.html' : path)
    res.setHeader('Content-Security-Policy', csp)
    res.setHeader('X-Content-Type-Options', 'nosniff')
    try {
      const data = await readFile(join(dist, name))
      res.setHeader('Content-Type', mime[extname(name)] ?? 'application/octet-stream')
      res.end(data)
    } catch {
      res.statusCode = 404
      res.end('not found')
    }
  }

  async login(req, res) {
    const { token } = JSON.parse(await read(req))
    if (token !== this.token) return refuse(res, 401, 'UNAUTHENTICATED', 'this token is not the one of this appliance')
    res.setHeader('Set-Cookie', `weir=${token}; HttpOnly; SameSite=Strict; Path=/`)
    json(res, {})
  }

  async sql(req, res) {
    const { sql } = JSON.parse(await read(req))
    const id = String(req.headers['weir-query'] ?? '')
    this.queries.push(sql)
    res.setHeader('Weir-Query', id)
    res.setHeader('Weir-Epoch', String(this.epoch))
    const boom = sql.indexOf('boom')
    if (boom >= 0) {
      return refuse(res, 400, 'BINDER', `Referenced column "boom" not found in FROM clause!\nCandidate bindings: "${evil}"`, Buffer.byteLength(sql.slice(0, boom)))
    }
    if (/pg_sleep|slow/.test(sql)) {
      await new Promise((done) => {
        this.running.set(id, done)
        res.on('close', done)
      })
      this.running.delete(id)
      return refuse(res, 499, 'CANCELLED', 'the query was cancelled')
    }
    const got = this.answer(sql)
    if (!got) return refuse(res, 400, 'CATALOG', `Table with name ${sql.split(/\s+/).at(-1)} does not exist!`)
    if (got.truncated) res.setHeader('Weir-Truncated', '1')
    if (got.rows_cut) res.setHeader('Weir-Rows-Cut', '1')
    if (got.partial) res.setHeader('Weir-Partial', got.partial.map(encodeURIComponent).join(','))
    if (req.headers.accept === 'text/csv') {
      res.setHeader('Content-Type', 'text/csv')
      return res.end([got.columns.map((c) => c.name), ...got.rows].map((r) => r.map((v) => (v === null ? '' : String(v))).join(',')).join('\n') + '\n')
    }
    res.setHeader('Content-Type', 'application/json')
    // BigInts are written as numbers with all their digits, as the server does.
    const text = JSON.stringify({ ...got, epoch: this.epoch }, (_, v) => (typeof v === 'bigint' ? `\u0001${v}\u0001` : v))
    res.end(text.replace(/"\\u0001(-?\d+)\\u0001"/g, '$1'))
  }

  answer(sql) {
    if (/\bxss\b/.test(sql)) return { columns: [{ name: evil, type: 'VARCHAR' }, { name: 'b', type: evil }], rows: [[evil, '</script><script>document.title="owned"</script>'], ['javascript:alert(1)', '\u202Eevil\u202C']] }
    if (/state_diff/.test(sql)) return diff(sql)
    if (/state_history/.test(sql)) return history()
    if (/\btypes\b/.test(sql)) {
      return {
        columns: [{ name: 'id', type: 'BIGINT' }, { name: 'huge', type: 'HUGEINT' }, { name: 'd', type: 'DOUBLE' }, { name: 's', type: 'VARCHAR' }, { name: 'ok', type: 'BOOLEAN' }, { name: 'tags', type: 'VARCHAR[]' }, { name: 'at', type: 'TIMESTAMP' }, { name: 'raw', type: 'BLOB' }],
        rows: [
          [9223372036854775807n, '170141183460469231731687303715884105727', 0.1, 'plain', true, ['a', 'b'], '2026-11-29T14:03:07.123456', 'AAEC'],
          [-9223372036854775808n, '-1', 'NaN', '', false, [], '2026-11-29T00:00:00', ''],
          [null, null, null, null, null, null, null, null],
          [1, '0', 5, 'tab\there\nline\u0000nul', true, [null], '1969-12-31T23:59:59.999', 'gA=='],
        ],
      }
    }
    if (/\bbig\b/.test(sql)) {
      return {
        columns: [{ name: 'i', type: 'BIGINT' }, ...Array.from({ length: 30 }, (_, c) => ({ name: `c${c}`, type: c % 2 ? 'DOUBLE' : 'VARCHAR' }))],
        rows: Array.from({ length: 20_000 }, (_, i) => [i, ...Array.from({ length: 30 }, (_, c) => (c % 2 ? i / 7 : `row ${i} col ${c}`))]),
        truncated: true,
      }
    }
    if (/^explain create/i.test(sql)) {
      return { columns: typed(['plan', 'VARCHAR']), rows: [['materialized view m over source orders'], ['keys       city VARCHAR = city'], ['           __count BIGINT, merged by add'], [`each batch SELECT ${'__input.city, '.repeat(40)}1 AS last`]] }
    }
    if (/^verify view/i.test(sql)) return { columns: typed(['view', 'VARCHAR'], ['epoch', 'BIGINT'], ['groups', 'BIGINT'], ['missing', 'BIGINT'], ['different', 'BIGINT']), rows: [['revenue_by_city', 18_204, 12, 0, 0]] }
    if (/\bregulars\b/.test(sql)) {
      return { columns: typed(['customer_id', 'BIGINT'], ['orders', 'BIGINT'], ['spent', 'DECIMAL(38,2)']), rows: [[1041, 31, '812.40'], [977, 28, '644.00'], [2210, 25, '590.15']] }
    }
    if (/FROM orders\b/.test(sql)) {
      const newest = { truncated: true, partial: ['orders'] }
      if (/count/.test(sql)) return { columns: typed(['n', 'BIGINT'], ['total', 'DECIMAL(38,2)']), rows: [[999, '24511.75']], ...newest }
      const rows = Array.from({ length: 20 }, (_, i) => [i, cities[i % cities.length]])
      return { columns: typed(['order_id', 'BIGINT'], ['city', 'VARCHAR']), rows, ...newest, ...(/JOIN/.test(sql) && { rows_cut: true }) }
    }
    if (/\bcut\b/.test(sql)) return { columns: typed(['n', 'BIGINT']), rows: [[1], [2], [3]], truncated: true, rows_cut: true }
    if (/orders_by_minute/.test(sql)) {
      return {
        columns: [{ name: 'minute', type: 'TIMESTAMP' }, { name: 'orders', type: 'BIGINT' }, { name: 'revenue', type: 'DECIMAL(38,2)' }],
        rows: Array.from({ length: 60 }, (_, i) => [`2026-11-29T13:${String(59 - i).padStart(2, '0')}:00`, 80 + Math.round(30 * Math.sin(i / 6)), (4000 + 900 * Math.cos(i / 5)).toFixed(2)]),
      }
    }
    if (/revenue_by_city|top_cities/.test(sql) && !/^create/i.test(sql)) {
      return {
        columns: [{ name: 'city', type: 'VARCHAR' }, { name: 'orders', type: 'BIGINT' }, { name: 'revenue', type: 'DECIMAL(38,2)' }, { name: 'avg_order', type: 'DOUBLE' }, { name: 'last_order', type: 'TIMESTAMP' }],
        rows: this.revenue.map((r) => [...r]),
      }
    }
    if (/^create/i.test(sql)) return { columns: [], rows: [] }
    const one = /^select (\d+)$/i.exec(sql)
    return one && { columns: [{ name: one[1], type: 'INTEGER' }], rows: [[Number(one[1])]] }
  }

  // waiting names the sources that wait or have stopped.
  waiting() {
    const names = this.empty || this.readOnly ? [] : this.said(this.sources(0)).filter((s) => s.state === 'waiting' || s.state === 'stopped').map((s) => s.name)
    return names.length > 0 && { waiting: names }
  }

  // said has the states that a test asked for. What weir open shows is all stopped, and says so.
  said(all) {
    if (this.readOnly) return all.map((x) => ({ ...x, state: 'stopped', error: 'state stopped' }))
    return all.map((x) => ({ ...x, ...this.states[x.name] }))
  }

  views(rate) {
    const at = { epoch: this.epoch, lag: 12, rate, state: 'running', quarantined: 0, positions: [0, 1].map((partition) => ({ topic: 'orders', partition, next: 48_000 + this.epoch + partition })) }
    return [
      {
        ...at, name: 'revenue_by_city', kind: 'materialized', source: 'orders', groups: 12, bytes: 1840, quarantined: 3,
        export: { format: 'iceberg', target: '/srv/lake/revenue_by_city', every_s: 300, keep: 3, epoch: 18_101, checkpoint: 42, at: '2024-02-29T18:00:00Z', rows: 12, bytes: 2100, whole: true },
        sql: "CREATE MATERIALIZED VIEW revenue_by_city AS\nSELECT city, count(*) AS orders, sum(amount) AS revenue, avg(amount) AS avg_order,\n       max(placed_at) AS last_order\nFROM orders WHERE amount > 0 AND city <> 'test' GROUP BY city",
        columns: [{ name: 'city', type: 'VARCHAR', role: 'key' }, { name: 'orders', type: 'BIGINT', role: 'result' }, { name: 'revenue', type: 'DECIMAL(38,2)', role: 'result' }, { name: 'avg_order', type: 'DOUBLE', role: 'result' }, { name: 'last_order', type: 'TIMESTAMP', role: 'result' }],
      },
      {
        ...at, name: 'orders_by_minute', kind: 'materialized', source: 'orders', groups: 8_412, bytes: 612_400, lag: 0,
        sql: "CREATE MATERIALIZED VIEW orders_by_minute AS\nSELECT date_trunc('minute', placed_at) AS minute, count(*) AS orders, sum(amount) AS revenue\nFROM orders GROUP BY ALL",
        columns: [{ name: 'minute', type: 'TIMESTAMP', role: 'key' }, { name: 'orders', type: 'BIGINT', role: 'result' }, { name: 'revenue', type: 'DECIMAL(38,2)', role: 'result' }],
      },
      {
        ...at, name: 'views_by_path', kind: 'materialized', source: 'page_views', groups: 1_204_331, bytes: 68_200_000, state: 'backfilling', lag: 481_220, rate: rate * 31,
        sql: 'CREATE MATERIALIZED VIEW views_by_path AS\nSELECT path, count(*) AS views FROM page_views GROUP BY path',
        columns: [{ name: 'path', type: 'VARCHAR', role: 'key' }, { name: 'views', type: 'BIGINT', role: 'result' }],
      },
      {
        ...at, name: 'sessions by user', kind: 'materialized', source: 'page_views', groups: 0, bytes: 0, state: 'stopped', rate: 0, lag: 0, error: `the topic was recreated ${evil}`,
        export: { format: 'parquet', target: `/srv/lake/${evil}`, keep: 1, epoch: 0, checkpoint: 0, at: null, rows: 0, bytes: 0, whole: false, error: `the disk is full ${evil}` },
        sql: 'CREATE MATERIALIZED VIEW "sessions by user" AS\nSELECT user_id, count(*) AS n FROM page_views GROUP BY user_id',
        columns: [{ name: 'user_id', type: 'BIGINT', role: 'key' }, { name: 'n', type: 'BIGINT', role: 'result' }],
      },
      { name: 'top_cities', kind: 'view', sql: 'CREATE VIEW top_cities AS\nSELECT * FROM revenue_by_city ORDER BY revenue DESC LIMIT 10', source: '', columns: [{ name: 'city', type: 'VARCHAR' }, { name: 'revenue', type: 'DECIMAL(38,2)' }], groups: 0, bytes: 0, epoch: this.epoch, positions: [], lag: 0, rate: 0, state: 'running', quarantined: 0 },
    ]
  }

  sources(rate) {
    const partitions = [0, 1, 2, 3].map((partition) => ({ partition, next: 48_000 + this.epoch, end: 48_000 + this.epoch + partition * 4, lag: partition * 4 }))
    return [
      {
        name: 'orders', connector: 'kafka', topic: 'shop.orders', format: 'json', state: 'running', rate, lag: 24, partitions, quarantined: 3, records: 192_411 + this.epoch,
        sql: "CREATE SOURCE orders (\n  order_id BIGINT, city VARCHAR, amount DECIMAL(12,2), placed_at TIMESTAMP\n) WITH (connector = 'kafka', topic = 'shop.orders', format = 'json')",
        columns: [{ name: 'order_id', type: 'BIGINT' }, { name: 'city', type: 'VARCHAR' }, { name: 'amount', type: 'DECIMAL(12,2)' }, { name: 'placed_at', type: 'TIMESTAMP' }, { name: 'items', type: 'STRUCT(sku VARCHAR, quantity INTEGER)[]' }],
      },
      {
        name: 'page_views', connector: 'kafka', topic: 'shop.page_views', format: 'json', state: 'waiting', rate: 0, lag: 0, partitions: [], quarantined: 0, records: 0, error: '',
        sql: "CREATE SOURCE page_views (user_id BIGINT, path VARCHAR) WITH (connector = 'kafka', topic = 'shop.page_views', format = 'json')",
        columns: [{ name: 'user_id', type: 'BIGINT' }, { name: 'path', type: 'VARCHAR' }],
      },
    ]
  }

  refused() {
    const b64 = (s) => Buffer.from(s).toString('base64')
    return [
      { partition: 1, offset: 66_120, timestamp: new Date(Date.now() - 4000).toISOString(), view: 'revenue_by_city', column: 'revenue', reason: 'could not convert "twelve" to DECIMAL(12,2)', value: b64('{"order_id": 77, "city": "Paris", "amount": "twelve"}') },
      { partition: 0, offset: 65_001, timestamp: new Date(Date.now() - 64_000).toISOString(), column: 'city', reason: `not JSON at byte 9: ${evil}`, value: b64(`{"city": ${evil}`) },
      { partition: 3, offset: 12, timestamp: new Date(Date.now() - 900_000).toISOString(), reason: 'not UTF-8', value: Buffer.from([0xff, 0xfe, 0x00, 0x41, 0x42, 0x0a, 0x99, 0x10, 0x20, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37]).toString('base64') },
      { partition: 3, offset: 13, timestamp: new Date(Date.now() - 900_000).toISOString(), reason: 'a tombstone has no columns', value: null },
    ]
  }
}

const typed = (...pairs) => pairs.map(([name, type]) => ({ name, type }))

// diff is some change of every kind, with a key that is NULL and one that is hostile.
function diff(sql) {
  if (/'orders_by_minute'/.test(sql)) return { columns: typed(['change', 'VARCHAR'], ['n', 'BIGINT']), rows: [] }
  if (/GROUP BY change/.test(sql)) return { columns: typed(['change', 'VARCHAR'], ['n', 'BIGINT']), rows: [['changed', 301], ['added', 1], ['removed', 1], ['error', 1]] }
  const rows = [
    ['added', 'Lisbon', null, 12, null, null, '640.10', null, null, 53.3, null, null, '2026-11-29T14:03:07', null],
    ['changed', 'Paris', 880, 901, 21, '47100.00', '48211.50', '1111.50', 53.5, 53.5, 0.0, '2026-11-29T13:00:00', '2026-11-29T14:03:07', null],
    ['changed', null, 9007199254740993n, 3, -9007199254740990n, '5.00', '5.00', '0.00', 1.5, 1.5, 0.0, null, null, null],
    ['error', evil, null, null, null, null, null, null, null, null, null, null, null, `checkpoint 42: the sum overflows ${evil}`],
    ['removed', '', 4, null, null, '80.00', null, null, 20.0, null, null, '2026-11-29T11:00:00', null, null],
  ]
  if (/abs\(orders_delta\) DESC/.test(sql)) rows.sort((a, b) => Number(b[1] === null) - Number(a[1] === null))
  const three = (name, type, delta) => [[name + '_before', type], [name + '_after', type], [name + '_delta', delta]]
  return {
    columns: typed(['change', 'VARCHAR'], ['city', 'VARCHAR'], ...three('orders', 'BIGINT', 'BIGINT'), ...three('revenue', 'DECIMAL(38,2)', 'DECIMAL(38,2)'),
      ...three('avg_order', 'DOUBLE', 'DOUBLE'), ['last_order_before', 'TIMESTAMP'], ['last_order_after', 'TIMESTAMP'], ['error', 'VARCHAR']),
    rows,
  }
}

function history() {
  const at = (minutes) => new Date(Date.now() - minutes * 60_000).toISOString()
  return {
    columns: typed(['version', 'BIGINT'], ['epoch', 'BIGINT'], ['created', 'TIMESTAMP WITH TIME ZONE'], ['savepoint', 'VARCHAR'], ['present', 'BOOLEAN'], ['city', 'VARCHAR'],
      ['orders', 'BIGINT'], ['revenue', 'DECIMAL(38,2)'], ['avg_order', 'DOUBLE'], ['last_order', 'TIMESTAMP'], ['error', 'VARCHAR']),
    rows: [
      [37, 15_001, at(180), null, false, 'Paris', null, null, null, null, null],
      [38, 15_500, at(150), null, null, 'Paris', null, null, null, null, 'the view was another then'],
      [40, 16_004, at(120), "before 'launch'", true, 'Paris', 512, '27400.00', 53.5, '2026-11-29T12:00:00', null],
      [41, 17_020, at(6), null, true, 'Paris', 840, '45000.00', 53.5, '2026-11-29T13:58:00', null],
      [42, 18_101, at(1), null, true, 'Paris', 880, '47100.00', 53.5, '2026-11-29T14:03:00', null],
    ],
  }
}

function json(res, value) {
  res.setHeader('Content-Type', 'application/json')
  res.end(JSON.stringify(value))
}

function refuse(res, status, code, message, position) {
  res.statusCode = status
  json(res, { error: { code, message, ...(position !== undefined && { position }) } })
}

async function read(req) {
  let text = ''
  for await (const part of req) text += part
  return text
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(await new Fake().listen(Number(process.argv[2] ?? 8080)))
}
