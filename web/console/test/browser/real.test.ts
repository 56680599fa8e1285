// The console in front of a real appliance, when WEIR_URL names one (a link with a token logs in). It knows nothing of
// the views there. Statements that read are all that it runs.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Browser } from 'playwright-core'
import { Bench, launch } from './bench.ts'

const link = process.env.WEIR_URL ?? ''

describe('a real appliance', () => {
  const [base = '', token = ''] = link.split('#')
  const url = base.endsWith('/') ? base : base + '/'
  let browser: Browser
  beforeAll(async () => void (browser = await launch()))
  afterAll(() => browser.close())

  test('answers, marks errors, shows its pages, breaks no policy', async () => {
    const b = await Bench.open(browser, url, {}, token === '' ? '' : '#' + token)
    await b.ready()
    expect(await b.page.evaluate(async () => (await fetch('/')).headers.get('Content-Security-Policy'))).toContain("default-src 'none'")
    await b.run('SELECT 9223372036854775807 AS big, NULL AS nothing, \'\' AS empty')
    await expect.poll(() => b.cell(0, 0).textContent()).toBe('9223372036854775807')
    expect(await b.cell(0, 1).textContent()).toBe('NULL')
    expect(await b.stamp('epoch').textContent()).toMatch(/^\d/)
    await b.run("SELECT 'é',\n  no_such_column")
    await expect.poll(() => b.editor.locator('.cm-lintRange-error').textContent()).toBe('no_such_column')
    for (const [page, heading] of [['views', 'Views'], ['sources', 'Sources'], ['checkpoints', 'Checkpoints']] as const) {
      await b.page.goto(url + '#/' + page)
      await b.page.getByRole('heading', { name: heading }).waitFor()
      await b.audit(page)
    }
    await b.close()
  })

  test('a view follows the commits', async () => {
    const b = await Bench.open(browser, url, {}, token === '' ? '' : '#' + token)
    await b.ready()
    await b.page.getByRole('button', { name: /^Query / }).first().click()
    await b.cell(0, 0).waitFor()
    const epoch = await b.stamp('epoch').textContent()
    await b.page.getByRole('switch', { name: 'Live' }).click()
    await expect.poll(() => b.stamp('epoch').textContent()).not.toBe(epoch)
    await b.close()
  })
})
