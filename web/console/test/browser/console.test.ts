// The console in a browser, over a made-up appliance with the real content security policy.

import { readdir, readFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Browser } from 'playwright-core'
import { evil, Fake } from '../fake/server.mjs'
import { Bench, launch } from './bench.ts'

let browser: Browser
let fake: Fake
let url: string
let b: Bench

beforeAll(async () => void (browser = await launch()))
afterAll(() => browser.close())
beforeEach(async () => {
  fake = new Fake()
  url = await fake.listen()
})
afterEach(async () => {
  await b.close()
  await fake.close()
})

const open = async (options = {}, path = '') => {
  b = await Bench.open(browser, url, options, path)
  await b.ready()
}

describe('queries', () => {
  test('a first visit finds a query that runs, and a stamp on the result', async () => {
    await open()
    await expect.poll(() => b.text()).toContain('FROM revenue_by_city')
    await b.page.getByRole('button', { name: /^Run/ }).click()
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('Paris')
    expect(fake.queries).toEqual(['SELECT * FROM revenue_by_city\nORDER BY revenue DESC LIMIT 100'])
    expect(Number((await b.stamp('epoch').textContent())!.replace(/\D/g, ''))).toBeGreaterThan(18_000)
    expect(await b.stamp('rows').textContent()).toBe('12')
    expect(await b.stamp('time').textContent()).toMatch(/ms|s/)
    await expect.poll(() => b.stamp('data').textContent()).toMatch(/old$/)
    await expect.poll(() => b.stamp('answered').textContent()).toMatch(/epochs? behind/)
  })

  test('every digit, NULL and the empty text apart, control characters shown', async () => {
    await open()
    await b.run('SELECT * FROM types')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('9223372036854775807')
    expect(await b.cell(1, 0).textContent()).toBe('-9223372036854775808')
    expect(await b.cell(0, 1).textContent()).toBe('170141183460469231731687303715884105727')
    expect(await b.cell(2, 3).getAttribute('class')).toContain('is-null')
    expect(await b.cell(1, 3).getAttribute('class')).toContain('is-empty')
    expect(await b.cell(3, 3).textContent()).toBe('tab⇥here⏎line⟨U+0000⟩nul')
  })

  test('the statement at the cursor runs, or the selection', async () => {
    await open()
    await b.write('SELECT 1;\nSELECT 22;\nSELECT 333')
    await b.page.keyboard.press('ArrowUp')
    await b.page.keyboard.press('Control+Enter')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('22')
    await b.page.keyboard.press('Control+Home')
    await b.page.keyboard.press('Shift+ArrowDown')
    await b.page.keyboard.press('Control+Enter')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('1')
    await b.page.keyboard.press('Control+a')
    await b.page.keyboard.press('Control+Enter')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('333')
    expect(fake.queries).toEqual(['SELECT 22', 'SELECT 1', 'SELECT 1', 'SELECT 22', 'SELECT 333'])
    await b.write('SELECT 1; SELECT boom; SELECT 3')
    await b.page.keyboard.press('Control+a')
    await b.page.keyboard.press('Control+Enter')
    await expect.poll(() => b.editor.locator('.cm-lintRange-error').textContent()).toBe('boom')
    expect(fake.queries.at(-1)).toBe('SELECT boom')
  })

  test('an error is marked where it is, after characters of many bytes too', async () => {
    await open()
    await b.run("SELECT 1;\nSELECT 'é東😀',\n  boom")
    await expect.poll(() => b.editor.locator('.cm-lintRange-error').textContent()).toBe('boom')
    const alert = b.page.getByRole('alert')
    await expect.poll(() => alert.textContent()).toContain('Referenced column "boom" not found')
    await alert.getByRole('button', { name: 'line 3, column 3' }).click()
    await b.page.keyboard.insertText('x')
    await expect.poll(() => b.text()).toContain('  xboom')
  })

  test('Escape cancels here and on the server; so does the button', async () => {
    await open()
    await b.run('SELECT slow')
    await b.page.getByRole('button', { name: /^Cancel/ }).waitFor()
    await expect.poll(() => fake.running.size).toBe(1)
    await b.page.keyboard.press('Escape')
    await b.page.getByRole('heading', { name: 'Cancelled' }).waitFor()
    await expect.poll(() => fake.cancelled.length).toBe(1)
    await expect.poll(() => fake.running.size).toBe(0)
    await b.page.keyboard.press('Control+Enter')
    await b.page.getByRole('button', { name: /^Cancel/ }).click()
    await expect.poll(() => fake.cancelled.length).toBe(2)
    expect(fake.cancelled[0]).toMatch(/^[0-9a-f]{32}$/)
  })

  test('a cut result says so, and its last row can be reached', async () => {
    await open()
    await b.run('SELECT * FROM big')
    await b.page.getByText(/^Cut at/).waitFor()
    expect(await b.stamp('rows').textContent()).toBe('20,000+')
    await b.page.locator('.grid').focus()
    await b.page.keyboard.press('Control+End')
    await expect.poll(() => b.cell(19_999, 30).textContent()).toBe('2857.0')
    expect(await b.page.locator('.grid-body [role=row]').count()).toBeLessThan(60)
    await b.page.keyboard.press('Control+Home')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('0')
  })

  test('an answer of the newest records says that, and not that rows were cut', async () => {
    await open()
    const notes = () => b.page.locator('[role=note]').allTextContents()
    await b.run('SELECT count(*) AS n, sum(amount) AS total FROM orders')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('999')
    expect(await notes()).toEqual(['Shows the newest 1,000 records of orders only. Older ones are in no figure here: that takes a materialized view.'])
    expect(await b.stamp('row').textContent()).toBe('1')
    await b.run('SELECT * FROM orders LIMIT 20')
    await expect.poll(() => b.stamp('rows').textContent()).toBe('20')
    expect(await notes()).toEqual([expect.stringMatching(/^Shows the newest 1,000 records of orders only/)])
    await b.run('SELECT * FROM cut')
    await expect.poll(() => b.stamp('rows').textContent()).toBe('3+')
    expect(await notes()).toEqual(['Cut at 3 rows: there is more. Add a LIMIT or aggregate.'])
    await b.run('SELECT * FROM orders JOIN orders')
    await expect.poll(() => b.stamp('rows').textContent()).toBe('20+')
    expect(await notes()).toEqual([expect.stringMatching(/^Shows the newest/), expect.stringMatching(/^Cut at 20 rows/)])
    await b.audit('newest')
    await b.page.getByRole('button', { name: 'Export' }).click()
    await Promise.all([b.page.waitForEvent('download'), b.page.getByRole('menuitem', { name: /^CSV ?exact/ }).click()])
    await b.page.getByText(/which is not whole\. Shows the newest 1,000 records of orders only\. Cut at the limit of rows$/).waitFor()
  })

  test('EXPLAIN is text, whole, in a fixed width', async () => {
    await open()
    await b.run('EXPLAIN CREATE MATERIALIZED VIEW m AS SELECT 1')
    const plan = b.page.getByRole('group', { name: 'Plan' })
    await expect.poll(() => plan.textContent()).toMatch(/each batch .*1 AS last\n$/)
    expect(await plan.locator('pre').evaluate((e) => getComputedStyle(e).fontFamily)).toMatch(/mono/)
    expect(await plan.evaluate((e) => e.scrollWidth - e.clientWidth)).toBe(0)
    await b.audit('plan')
  })

  test('completion knows the columns', async () => {
    await open()
    await b.write('SELECT * FROM revenue_by_city WHERE ')
    await b.page.keyboard.type('rev')
    const list = b.page.getByRole('listbox')
    await list.waitFor()
    await expect.poll(() => list.getByRole('option').first().textContent()).toBe('revenueDECIMAL(38,2)')
    await expect.poll(async () => {
      if (await list.isVisible()) await b.page.keyboard.press('Tab') // a list that has just opened takes no key yet
      return b.text()
    }).toBe('SELECT * FROM revenue_by_city WHERE revenue')
  })

  test('cells are copied as TSV, sorted as shown', async () => {
    await open({ permissions: ['clipboard-read', 'clipboard-write'] })
    await b.run('SELECT * FROM types')
    await b.cell(0, 3).click()
    await b.page.keyboard.press('Shift+ArrowDown')
    await b.page.keyboard.press('Shift+ArrowRight')
    await b.page.keyboard.press('Control+c')
    const copied = () => b.page.evaluate(() => navigator.clipboard.readText())
    await expect.poll(copied).toBe('plain\ttrue\n""\tfalse')
    await b.page.getByRole('columnheader', { name: 'BIGINT' }).click()
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('-9223372036854775808')
    await b.page.getByRole('button', { name: 'Copy' }).click()
    await b.page.getByRole('menuitem', { name: /^Everything/ }).click()
    await expect.poll(async () => (await copied()).split('\n')[1]?.split('\t')[0]).toBe('-9223372036854775808')
  })

  test('an export is the server\'s own, under the name of its epoch', async () => {
    await open()
    await b.run('SELECT 7')
    await b.cell(0, 0).waitFor()
    await b.page.getByRole('button', { name: 'Export' }).click()
    const [download] = await Promise.all([b.page.waitForEvent('download'), b.page.getByRole('menuitem', { name: /^CSV ?exact/ }).click()])
    expect(download.suggestedFilename()).toMatch(/^weir-epoch-\d+\.csv$/)
    expect(await readFile(await download.path(), 'utf8')).toBe('7\n7\n')
  })

  test('a value is shown whole', async () => {
    await open()
    await b.run('SELECT * FROM types')
    await b.cell(0, 5).dblclick()
    const dialog = b.page.getByRole('dialog')
    await expect.poll(() => dialog.locator('pre').textContent()).toBe('[\n  "a",\n  "b"\n]')
    await b.page.keyboard.press('Escape')
    await expect.poll(() => dialog.count()).toBe(0)
  })

  test('a result can be a chart', async () => {
    await open()
    await b.run('SELECT * FROM orders_by_minute')
    await b.page.getByRole('button', { name: 'Chart' }).click()
    await b.page.getByRole('img', { name: 'Line chart of orders, revenue by minute' }).waitFor()
    await b.audit('chart')
  })
})

describe('charts', () => {
  const chart = () => b.page.getByRole('button', { name: 'Chart' })
  const image = () => b.page.getByRole('img', { name: /chart of/ })

  test('are of the statement they were asked for', async () => {
    await open()
    await b.run('SELECT * FROM revenue_by_city')
    await chart().click()
    await b.page.getByRole('img', { name: 'Bar chart of orders by city' }).waitFor()
    await b.run('VERIFY VIEW revenue_by_city')
    await expect.poll(() => b.cell(0, 1).textContent()).toBe('18204')
    expect(await image().count()).toBe(0)
    expect(await chart().isDisabled()).toBe(true)
    await b.run('SELECT * FROM revenue_by_city LIMIT 100')
    await image().waitFor() // the same columns: their chart is back
    await b.run('SELECT * FROM orders_by_minute')
    await expect.poll(() => b.stamp('rows').textContent()).toBe('60')
    expect(await image().count()).toBe(0)
  })

  test('name the points by the key, and draw no key', async () => {
    await open()
    await b.run('SELECT * FROM regulars')
    await chart().click()
    await b.page.getByRole('img', { name: 'Bar chart of orders by customer_id' }).waitFor()
    expect(await b.page.locator('.chart select option').allTextContents()).toEqual(['orders', 'spent'])
    await b.page.locator('.chart svg').getByText('2210').waitFor()
    await b.run("SELECT * FROM state_diff('revenue_by_city', 42)")
    await b.cell(0, 0).waitFor()
    await chart().click()
    await b.page.getByRole('img', { name: 'Bar chart of orders_delta by city' }).waitFor()
    await b.page.locator('.chart svg').getByText('Paris').waitFor()
  })
})

describe('live', () => {
  test('follows the commits, flashes what changed, stops when told', async () => {
    await open()
    fake.ticking = false
    await b.run('SELECT * FROM revenue_by_city')
    await b.cell(0, 0).waitFor()
    const live = b.page.getByRole('switch', { name: 'Live' })
    await live.click()
    await expect.poll(() => fake.events.size).toBe(1)
    const before = fake.queries.length
    const marks = await b.marks((fake.epoch + 1) % 12, 1)
    fake.tick()
    await expect.poll(() => fake.queries.length).toBe(before + 1)
    await expect.poll(marks).toMatch(/changed up/)
    await expect.poll(() => b.stamp('epoch').textContent()).toContain(String(fake.epoch % 1000))
    await live.click()
    await expect.poll(() => fake.events.size).toBe(0)
    fake.tick()
    const shown = b.page.locator('.pulse .epoch')
    for (let i = 0; i < 2; i++) {
      await expect.poll(async () => (await shown.textContent())!.replace(/\D/g, '')).toBe(String(fake.epoch))
      fake.tick()
    }
    expect(fake.queries.length).toBe(before + 1)
  })

  test('without the event stream the status is enough', async () => {
    await open()
    fake.ticking = false
    await b.page.route('**/api/v1/events', (r) => r.abort())
    await b.run('SELECT * FROM revenue_by_city')
    await b.cell(0, 0).waitFor() // else it runs at once, too
    await b.page.getByRole('switch', { name: 'Live' }).click()
    const before = fake.queries.length
    fake.tick()
    await expect.poll(() => fake.queries.length).toBe(before + 1)
  })

  test('is paused while the page is hidden', async () => {
    await open()
    await b.run('SELECT * FROM revenue_by_city')
    await b.cell(0, 0).waitFor()
    await b.page.getByRole('switch', { name: 'Live' }).click()
    await expect.poll(() => fake.events.size).toBe(1)
    fake.ticking = false
    await expect.poll(async () => Number((await b.stamp('epoch').textContent())!.replace(/\D/g, ''))).toBe(fake.epoch) // no run is on its way
    const hide = (state: string) => b.page.evaluate((s) => {
      Object.defineProperty(document, 'visibilityState', { value: s, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    }, state)
    await hide('hidden')
    await expect.poll(() => fake.events.size).toBe(0)
    const before = fake.queries.length
    const epoch = fake.epoch
    fake.ticking = true
    await expect.poll(() => fake.epoch).toBeGreaterThan(epoch + 4)
    expect(fake.queries.length).toBe(before)
    await hide('visible')
    await expect.poll(() => fake.queries.length).toBeGreaterThan(before)
  })

  test('goes on with the next statement, and with a server that was started anew', async () => {
    await open()
    fake.ticking = false
    await b.run('SELECT 7')
    await b.page.getByRole('switch', { name: 'Live' }).click()
    await b.run('SELECT 8')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('8')
    fake.tick()
    await expect.poll(() => fake.queries.filter((q) => q === 'SELECT 8').length).toBe(2)
    await expect.poll(async () => (await b.stamp('epoch').textContent())!.replace(/\D/g, '')).toBe(String(fake.epoch)) // no run is on its way
    fake.uptime = 1
    fake.epoch = 3
    await expect.poll(() => b.stamp('epoch').textContent()).toBe('3')
    expect(await b.page.getByRole('switch').getAttribute('aria-checked')).toBe('true')
    expect(fake.queries.filter((q) => q === 'SELECT 8').length).toBe(3)
  })

  test('only what reads can be live', async () => {
    await open()
    await b.write('CREATE VIEW x AS SELECT 1')
    await b.page.getByRole('switch', { name: 'Live' }).click()
    await b.page.getByText('there is none at the cursor').waitFor()
    expect(fake.queries).toEqual([])
  })
})

describe('nothing is lost', () => {
  test('drafts, tabs and history survive a reload', async () => {
    await open()
    await b.run('SELECT 1 -- mine')
    await b.cell(0, 0).waitFor()
    await b.page.getByRole('button', { name: 'New query' }).click()
    await b.write('SELECT 2 -- typed, never run')
    await b.page.reload()
    await b.ready()
    expect(await b.text()).toBe('SELECT 2 -- typed, never run')
    await b.page.getByRole('tab', { name: 'Query 1' }).click()
    await expect.poll(() => b.text()).toBe('SELECT 1 -- mine')
    await b.page.getByRole('button', { name: 'History' }).click()
    await b.page.getByRole('dialog').getByText('SELECT 1').click()
    await b.page.getByRole('tab', { name: 'Query 3' }).waitFor()
    expect(fake.queries.length).toBe(1)
  })

  test('fast typing arrives as it was typed', async () => {
    await open()
    await b.write('')
    const sql = "select city, count(*) from nowhere where x = 1 and y = 2"
    await b.page.keyboard.type(sql)
    expect(await b.text()).toBe(sql)
    expect(await b.page.evaluate(() => Object.entries(localStorage).filter(([k]) => k.startsWith('weir.draft.')).map(([, v]) => JSON.parse(v)))).toEqual([sql])
  })

  test('a closed tab comes back', async () => {
    await open()
    await b.write('SELECT 42')
    await b.page.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => b.text()).not.toContain('42')
    await b.page.getByRole('button', { name: 'Undo' }).click()
    await expect.poll(() => b.text()).toBe('SELECT 42')
  })

  test('a link fills the editor and runs nothing', async () => {
    await open({}, '#/query?sql=' + encodeURIComponent('SELECT 99'))
    await expect.poll(() => b.text()).toBe('SELECT 99')
    expect(fake.queries).toEqual([])
    expect(new URL(b.page.url()).hash).toBe('#/query')
  })

  test('a lost connection is said, and found again', async () => {
    await open()
    fake.down = true
    await b.page.getByText('Connection to Weir lost.').waitFor()
    fake.down = false
    await b.page.getByRole('button', { name: 'Try now' }).click()
    await expect.poll(() => b.page.getByText('Connection to Weir lost.').count()).toBe(0)
  })
})

describe('pages', () => {
  test('views: figures, one click to query, look-up of a group', async () => {
    await open()
    await b.page.getByRole('link', { name: /^Views/ }).click()
    const row = b.page.getByRole('row', { name: /views_by_path/ })
    await row.waitFor()
    expect((await row.textContent())!.replace(/\s/g, '')).toContain('backfillingpage_views')
    expect(await b.page.locator('.table-box tr', { hasText: 'sessions by user' }).textContent()).toContain('the topic was recreated')
    await b.page.getByRole('link', { name: 'revenue_by_city' }).click()
    await b.page.getByLabel(/^city/).fill('Paris')
    await b.page.getByRole('button', { name: 'Look up' }).click()
    await b.page.locator('.found').getByText('53.57').waitFor()
    await b.page.getByLabel(/^city/).fill('Atlantis')
    await b.page.getByRole('button', { name: 'Look up' }).click()
    await b.page.getByText('There is no such group.').waitFor()
    const exported = (await b.page.locator('.found').filter({ hasText: 'Iceberg table' }).textContent())!.replace(/\s/g, '')
    expect(exported).toMatch(/\/srv\/lake\/revenue_by_city.*every5minatmost;3exportsstay.*epoch18,101,2024-02-29.*12rows,2\.1kB$/)
    await b.page.getByRole('link', { name: 'sessions by user' }).click()
    await b.page.getByText('The view was not exported: the disk is full').waitFor()
    await b.page.getByText('none yet').waitFor()
    await b.page.getByRole('link', { name: 'revenue_by_city' }).click()
    await b.page.getByRole('button', { name: 'Query it' }).click()
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('Paris')
  })

  test('sources: lag per partition, and what was refused', async () => {
    await open({}, '#/sources/orders')
    await b.page.getByRole('heading', { name: 'Partitions' }).waitFor()
    await b.page.getByRole('button', { name: 'Quarantine (3)' }).click()
    const dialog = b.page.getByRole('dialog')
    await dialog.getByText('could not convert "twelve"').waitFor()
    await dialog.getByText('{"order_id": 77, "city": "Paris", "amount": "twelve"}').waitFor()
    await dialog.getByText('ff fe 00 41').waitFor()
  })

  test('checkpoints: list, take one, query one', async () => {
    await open({}, '#/checkpoints')
    await b.page.getByRole('row', { name: /^42/ }).waitFor()
    await b.page.getByRole('button', { name: 'Take a checkpoint' }).click()
    await b.page.getByRole('row', { name: /^43/ }).waitFor()
    await b.page.getByRole('button', { name: 'Query version 42' }).click()
    await expect.poll(() => fake.queries.at(-1)).toBe('SELECT * FROM revenue_by_city AT (VERSION => 42) LIMIT 100')
  })

  test('what weir open shows is no appliance: nothing to take, to verify or to alarm', async () => {
    fake.readOnly = 'checkpoint 7 of 2026-11-29 12:00:00 in shop.weir'
    await open({}, '#/checkpoints')
    await b.page.getByText('This is checkpoint 7 of 2026-11-29 12:00:00 in shop.weir.').waitFor()
    await b.page.getByRole('heading', { name: 'No others' }).waitFor()
    expect(await b.page.locator('.pulse').textContent()).toContain('read only')
    expect(await b.page.getByRole('button', { name: /checkpoint|Savepoint/ }).count()).toBe(0)
    await b.audit('read only')
    await b.page.getByRole('link', { name: 'Query', exact: true }).click()
    await expect.poll(() => b.text()).toContain('revenue_by_city as the checkpoint has it')
    expect(await b.text()).not.toMatch(/Live|up to date/)
    expect(await b.page.locator('.entry-name small').allTextContents()).toEqual(['12', '8,412', '1,204,331', '0', 'view', 'json', 'json'])
    expect(await b.page.locator('.entry-name small.bad, .entry-name small.warn').count()).toBe(0)
    expect(await b.page.locator('.examples code').allTextContents()).not.toEqual(expect.arrayContaining([expect.stringMatching(/VERIFY|CREATE|FROM orders\b/)]))
    expect(await b.page.getByRole('switch', { name: 'Live' }).count()).toBe(0)
    await b.page.getByRole('link', { name: /^Views/ }).click()
    await b.page.getByRole('link', { name: 'sessions by user' }).click()
    await b.page.getByRole('button', { name: 'Query it' }).waitFor()
    expect(await b.page.getByRole('button', { name: 'Verify …' }).count()).toBe(0)
    expect(await b.page.locator('.badge.bad, .count.bad, .error-box').count()).toBe(0)
  })

  test('a narrow page does not scroll sideways', async () => {
    await open({ viewport: { width: 500, height: 800 } })
    for (const page of ['query', 'views/revenue_by_city', 'sources/orders', 'checkpoints']) {
      await b.page.goto(`${url}#/${page}`)
      await b.page.locator(`main.page-${page.split('/')[0]}`).waitFor()
      if (page.includes('/')) await b.page.locator('.detail').waitFor()
      if (page === 'checkpoints') await b.page.getByRole('row', { name: /^42/ }).waitFor()
      expect(await b.page.evaluate(() => [document.documentElement, document.querySelector('main')!].map((e) => e.scrollWidth - e.clientWidth)), page).toEqual([0, 0])
    }
  })

  test.each([[320, 700], [390, 844], [768, 1024]])('a window of %i by %i shows the state, the age and every button', async (width, height) => {
    await open({ viewport: { width, height } })
    // Within the window, and within what cuts it.
    const inside = async (name: string) => {
      for (const e of await b.page.locator(name).all()) {
        const box = await e.evaluate((n) => {
          const { left, right, width } = n.getBoundingClientRect()
          return { left, right, width, room: n.closest('.pulse')?.getBoundingClientRect().right ?? innerWidth }
        })
        expect(box.left, name).toBeGreaterThanOrEqual(0)
        expect(box.right, name).toBeLessThanOrEqual(Math.min(width, box.room))
        expect(box.width, name).toBeGreaterThan(0)
      }
    }
    for (const page of ['query', 'views', 'sources', 'checkpoints']) {
      await b.page.goto(`${url}#/${page}`)
      await b.page.locator(`main.page-${page}`).waitFor()
      if (page === 'checkpoints') await b.page.getByRole('row', { name: /^42/ }).waitFor()
      await b.page.locator('.pulse .age').waitFor()
      expect(await b.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), page).toBe(0)
      for (const part of ['.top nav a', '.top .button', '.pulse .dot', '.pulse .state', '.pulse .age']) await inside(part)
    }
    await inside('.checkpoints button')
    if (width < 700) {
      const tall = await b.page.locator('.checkpoints tbody tr').evaluateAll((rows) => Math.max(...rows.map((r) => r.getBoundingClientRect().height)))
      expect(tall).toBeLessThan(140)
    }
  })

  test('a dialog opens on what is to be typed', async () => {
    await open({}, '#/checkpoints')
    const focused = () => b.page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? (document.activeElement as HTMLInputElement | null)?.labels?.[0]?.textContent)
    await b.page.getByRole('button', { name: 'Savepoint …' }).click()
    await expect.poll(focused).toBe('Name')
    await b.page.keyboard.type('typed at once')
    expect(await b.page.getByRole('dialog').getByLabel('Name').inputValue()).toBe('typed at once')
    await b.page.keyboard.press('Escape')
    await b.page.getByRole('link', { name: 'Query', exact: true }).click()
    await b.page.getByRole('button', { name: 'History' }).click()
    await expect.poll(focused).toBe('Search the history')
  })

  test('what waits or stopped is no error, and the header is not green', async () => {
    fake.states = { 'sessions by user': { state: 'running', error: '' }, page_views: { state: 'idle' } }
    await open()
    const state = b.page.locator('.pulse .state')
    const dot = () => state.locator('.dot').getAttribute('class')
    const beside = (name: string) => b.page.locator('.entry-name', { hasText: name }).locator('small')
    await expect.poll(() => state.textContent()).toBe('running')
    await expect.poll(dot).toBe('dot good')
    fake.states = { ...fake.states, orders: { state: 'waiting', error: 'broker localhost:9092: connection refused' }, revenue_by_city: { state: 'waiting', error: 'broker localhost:9092: connection refused' } }
    await expect.poll(() => state.textContent()).toBe('1 source waits')
    expect(await dot()).toBe('dot warn')
    await expect.poll(() => b.page.locator('.pulse').getAttribute('title')).toContain('orders: broker localhost:9092: connection refused')
    expect(await b.page.locator('.count').count()).toBe(0)
    await expect.poll(() => beside('revenue_by_city').textContent()).toBe('waiting')
    expect(await beside('revenue_by_city').getAttribute('class')).toBe('warn')
    await b.audit('waiting')
    await b.page.getByRole('link', { name: /^Sources/ }).click()
    fake.states = { ...fake.states, orders: { state: 'stopped', error: 'the topic was recreated' } }
    await expect.poll(() => state.textContent()).toBe('1 source stopped')
    expect(await dot()).toBe('dot bad')
  })

  test('savepoints: created with a name, refused with the reason, dropped after a question', async () => {
    await open({}, '#/checkpoints')
    await b.page.getByRole('button', { name: 'Savepoint …' }).click()
    const dialog = b.page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('live')
    await b.page.keyboard.press('Enter')
    await dialog.getByText('that is the present').waitFor()
    await b.audit('savepoint')
    await dialog.getByLabel('Name').fill('after <b>')
    await b.page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await b.page.getByRole('row', { name: /^43 ?after <b>/ }).waitFor()
    await b.page.getByRole('button', { name: "Drop before 'launch'" }).click()
    await dialog.getByText('will be gone for good').waitFor()
    await b.page.keyboard.press('Escape')
    await b.page.getByRole('row', { name: /^40/ }).waitFor()
    await b.page.getByRole('button', { name: "Drop before 'launch'" }).click()
    await dialog.getByRole('button', { name: 'Drop it' }).click()
    await b.page.getByRole('row', { name: /^40/ }).waitFor({ state: 'detached' })
    expect(fake.checkpoints.map((c) => c.id)).toEqual([41, 42, 43])
  })

  test('two checkpoints are compared, and a group is followed through all', async () => {
    await open({}, '#/checkpoints')
    await b.page.getByRole('button', { name: 'Compare version 40' }).click()
    const compare = b.page.getByRole('region', { name: 'Compare', exact: true })
    await compare.getByLabel('To', { exact: true }).selectOption('42')
    await compare.getByRole('button', { name: 'Compare' }).click()
    await compare.getByText("from before 'launch' to version 42: 304 groups differ: 1 added, 1 removed, 301 changed, 1 in error. The first 5 are shown.").waitFor()
    expect(fake.queries).toContain("SELECT * FROM state_diff('revenue_by_city', 'before ''launch''', 42) ORDER BY ALL LIMIT 200")
    const cell = async (row: RegExp, n: number) => (await compare.getByRole('row', { name: row }).getByRole('cell').nth(n).textContent())!
    expect(await cell(/Paris/, 1)).toBe('880 became→ 901+21')
    expect(await cell(/Paris/, 2)).toBe('47100.00 became→ 48211.50+1111.50')
    expect(await cell(/Paris/, 3)).toBe('53.5')
    expect(await cell(/^changed NULL/, 1)).toBe('9007199254740993 became→ 3−9007199254740990')
    expect(await cell(/^error/, 1)).toContain('the sum overflows')
    await compare.getByLabel('Order by').selectOption('size of the change of orders')
    await expect.poll(() => compare.getByRole('row').nth(1).textContent()).toContain('9007199254740993')
    expect(fake.queries.filter((q) => q.includes('ORDER BY')).at(-1)).toContain('ORDER BY abs(orders_delta) DESC NULLS LAST LIMIT 200')

    await b.page.getByRole('button', { name: 'History of NULL' }).click()
    await expect.poll(() => fake.queries.at(-1)).toBe("SELECT * FROM state_history('revenue_by_city', NULL)")
    await b.page.getByRole('button', { name: 'History of Paris' }).focus()
    await b.page.keyboard.press('Enter')
    await expect.poll(() => fake.queries.at(-1)).toBe("SELECT * FROM state_history('revenue_by_city', 'Paris')")
    const past = b.page.getByRole('region', { name: 'History of a group' })
    await past.getByRole('img', { name: 'Line chart of orders by time' }).waitFor()
    expect(await past.getByRole('row').nth(1).textContent()).toMatch(/^37.*not there$/)
    await past.getByText('the view was another then').waitFor()
    await past.getByLabel('Chart of', { exact: true }).selectOption('revenue')
    await past.getByRole('img', { name: 'Line chart of revenue by time' }).waitFor()
    await past.getByRole('button', { name: 'Close the history' }).click()
    await past.waitFor({ state: 'detached' })

    await compare.getByLabel('View').selectOption('orders_by_minute')
    await compare.getByRole('button', { name: 'Compare' }).click()
    await compare.getByText('no group differs').waitFor()
    await compare.getByRole('button', { name: 'Open in the editor' }).click()
    await expect.poll(() => b.text()).toContain("SELECT * FROM state_diff('orders_by_minute', 'before ''launch''', 42)")
  })

  test('empty: each page says what to do next', async () => {
    fake.empty = true
    fake.checkpoints = []
    await open()
    await expect.poll(() => b.text()).toContain('CREATE SOURCE')
    for (const [page, want] of [['views', 'No view yet'], ['sources', 'No source yet'], ['checkpoints', 'No checkpoint yet']] as const) {
      await b.page.goto(url + '#/' + page)
      await b.page.getByRole('heading', { name: want }).waitFor()
      await b.audit('empty ' + page)
    }
  })
})

describe('hostile data stays text', () => {
  test('in names, types, values, errors and payloads', async () => {
    await open()
    await b.run('SELECT * FROM xss')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe(evil)
    expect(await b.cell(1, 1).textContent()).toBe('⟨U+202E⟩evil⟨U+202C⟩')
    expect(await b.page.getByRole('columnheader').nth(1).textContent()).toContain(evil)
    await b.cell(0, 0).dblclick()
    await b.page.getByRole('dialog').waitFor()
    await b.page.keyboard.press('Escape')
    await b.run('SELECT boom')
    await b.page.getByText(evil).first().waitFor()
    await b.editor.locator('.cm-lintRange-error').hover()
    await b.page.locator('.cm-tooltip').getByText(evil).waitFor()
    await b.page.getByRole('button', { name: 'History' }).click()
    await b.page.getByRole('dialog').getByText(evil).waitFor()
    await b.page.keyboard.press('Escape')
    await b.page.goto(url + '#/views/' + encodeURIComponent('sessions by user'))
    await b.page.locator('.error-box').getByText(`the topic was recreated ${evil}`).waitFor()
    await b.page.locator('.why').getByText(`the topic was recreated ${evil}`).waitFor()
    await b.page.goto(url + '#/sources/orders')
    await b.page.getByRole('button', { name: 'Quarantine (3)' }).click()
    await b.page.getByText(`{"city": ${evil}`).waitFor()
    expect(await b.page.locator('img').count()).toBe(0)
    expect(await b.page.title()).not.toContain('owned')
  })
})

describe('log-in', () => {
  test('by the link that was printed, which leaves the address', async () => {
    fake.token = 'abc123'
    await open({}, '#token=abc123')
    expect(b.page.url()).not.toContain('abc123')
    await b.page.reload()
    await b.ready()
  })

  test('by the form', async () => {
    fake.token = 'abc123'
    b = await Bench.open(browser, url)
    await expect.poll(() => b.page.evaluate(() => document.activeElement?.id)).toBe('token')
    await b.page.getByLabel('Token').fill('wrong')
    await b.audit('log-in')
    await b.page.keyboard.press('Enter')
    await b.page.getByText('this token is not the one').waitFor()
    await b.page.getByLabel('Token').fill('abc123')
    await b.page.getByRole('button', { name: 'Log in' }).click()
    await b.ready()
  })
})

describe.each(['light', 'dark'] as const)('%s', (colorScheme) => {
  test('axe finds nothing on the query page', async () => {
    await open({ colorScheme })
    await b.audit('first visit')
    await b.page.getByRole('button', { name: 'revenue_by_city' }).first().click()
    await b.run('SELECT * FROM types')
    await b.cell(0, 0).click()
    await b.audit('result')
    await b.page.getByRole('button', { name: 'Export' }).click()
    await b.audit('menu')
    await b.page.keyboard.press('Escape')
    await b.run('SELECT boom')
    await b.page.getByRole('alert').waitFor()
    await b.audit('error')
    await b.page.getByRole('button', { name: 'History' }).click()
    await b.audit('history')
  })

  test('axe finds nothing on the other pages', async () => {
    await open({ colorScheme })
    for (const page of ['views', 'views/revenue_by_city', 'sources/orders', 'checkpoints']) {
      await b.page.goto(url + '#/' + page)
      await b.page.getByRole('table').first().waitFor()
      await b.audit(page)
    }
    await b.page.getByRole('button', { name: 'Compare', exact: true }).click()
    await b.page.getByRole('button', { name: 'History of Paris' }).click()
    await b.page.getByRole('img', { name: /^Line chart/ }).waitFor()
    await b.audit('compared')
    await b.page.goto(url + '#/sources/orders')
    await b.page.getByRole('button', { name: 'Quarantine (3)' }).click()
    await b.page.getByText('not UTF-8').first().waitFor()
    await b.audit('quarantine')
    await b.page.keyboard.press('Escape')
    await b.page.keyboard.press('?')
    await b.audit('keys')
    await b.page.keyboard.press('Escape')
    fake.down = true
    await b.page.getByText('Connection to Weir lost.').waitFor()
    await b.audit('offline')
  })

  test('the theme follows the system, and the button wins', async () => {
    await open({ colorScheme })
    const ground = () => b.page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const was = await ground()
    const to = async (theme: string) => {
      await b.page.getByRole('button', { name: `Change to ${theme}` }).click()
      await b.page.getByRole('button', { name: `Theme: ${theme}.` }).waitFor()
      return ground()
    }
    expect(await to('light')).not.toBe(await to('dark'))
    expect(await to('system')).toBe(was)
  })
})

test('everything can be done with the keyboard', async () => {
  await open()
  const { keyboard } = b.page
  const focused = () => b.page.evaluate(() => {
    let e = document.activeElement
    while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement
    return e?.getAttribute('aria-label') || e?.textContent?.trim() || e?.id || ''
  })
  const tabTo = async (want: RegExp) => {
    const seen: string[] = []
    for (let i = 0; i < 60; i++) {
      await keyboard.press('Tab')
      seen.push(await focused())
      if (want.test(seen.at(-1)!)) return
    }
    throw new Error(`Tab does not reach ${want}: ${seen.join(' | ')}`)
  }
  await expect.poll(() => b.text()).toContain('revenue_by_city')
  await tabTo(/^SQL editor$/)
  await keyboard.press('Control+Enter')
  await b.cell(0, 0).waitFor()
  await tabTo(/^Run/) // Tab leaves the editor
  await tabTo(/^Live$/)
  await keyboard.press('Space')
  await expect.poll(() => b.page.getByRole('switch').getAttribute('aria-checked')).toBe('true')
  await keyboard.press('Space')
  fake.ticking = false
  await keyboard.press('Shift+Tab')
  await keyboard.press('Enter') // Run, with numbers that stand still
  await expect.poll(() => fake.queries.length).toBeGreaterThan(1)
  await expect.poll(() => b.cell(1, 1).textContent()).toBe(String(fake.revenue[1]![1]))
  await tabTo(/^Copy$/)
  await keyboard.press('Enter')
  await expect.poll(() => b.page.evaluate(() => document.activeElement?.getAttribute('role'))).toBe('menuitem')
  await keyboard.press('ArrowDown')
  await expect.poll(focused).toMatch(/^Selection/)
  await keyboard.press('Escape')
  await expect.poll(focused).toBe('Copy')
  await tabTo(/^Rows$/)
  await keyboard.press('ArrowDown')
  await keyboard.press('ArrowRight')
  const active = () => b.page.evaluate(() => document.getElementById(document.activeElement!.getAttribute('aria-activedescendant')!)?.textContent)
  await expect.poll(active).toBe(String(fake.revenue[1]![1]))
  await keyboard.press('Enter')
  await b.page.getByRole('dialog').waitFor()
  await keyboard.press('Escape')
  await expect.poll(focused).toBe('Rows')
  await keyboard.press('Control+Home')
  await keyboard.press('ArrowUp')
  await keyboard.press('Enter') // sort by the header
  await expect.poll(() => b.cell(0, 0).textContent()).toBe('Athens')
  await b.page.reload()
  await b.ready()
  await tabTo(/^Views/)
  await keyboard.press('Enter')
  await b.page.getByRole('heading', { name: 'Views' }).waitFor()
})

test('the scripts stay small, and the page has nothing inline', async () => {
  await open()
  const dist = new URL('../../dist/', import.meta.url)
  const names = (await readdir(new URL('assets/', dist))).filter((n) => n.endsWith('.js'))
  const sizes = await Promise.all(names.map(async (n) => gzipSync(await readFile(new URL('assets/' + n, dist)), { level: 9 }).length))
  expect(sizes.reduce((a, b) => a + b)).toBeLessThan(260_000)
  expect(await readFile(new URL('index.html', dist), 'utf8')).not.toMatch(/<style|style=|<script[^>]*>[^<]/)
})
