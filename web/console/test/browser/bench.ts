// What the browser tests share: a browser, a page that watches for violations, and words for what a user does.

import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from 'playwright-core'
import { expect } from 'vitest'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })

// Bench is one page of one visitor.
export class Bench {
  readonly violations: string[] = []
  readonly foreign: string[] = []

  private constructor(readonly page: Page, readonly url: string) {}

  static async open(browser: Browser, url: string, options: BrowserContextOptions = {}, path = ''): Promise<Bench> {
    const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, acceptDownloads: true, timezoneId: 'UTC', locale: 'en-GB', ...options })
    const bench = new Bench(await context.newPage(), url)
    await bench.page.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (e) => {
        ;((globalThis as { violations?: string[] }).violations ??= []).push(`${e.violatedDirective} ${e.blockedURI} ${e.sample} ${e.sourceFile}:${e.lineNumber}:${e.columnNumber}`)
      })
    })
    bench.page.on('console', (m) => {
      if (/Content Security Policy|Trusted/i.test(m.text())) bench.violations.push(m.text())
    })
    bench.page.on('pageerror', (e) => bench.violations.push('error: ' + e.message))
    bench.page.on('dialog', (d) => bench.violations.push('dialog: ' + d.message()))
    bench.page.on('request', (r) => {
      if (!r.url().startsWith(url) && !/^(blob|data):/.test(r.url())) bench.foreign.push(r.url())
    })
    await bench.page.goto(url + path)
    return bench
  }

  // close ends the visit. Nothing may have been refused by the policy, thrown, or asked of another host.
  async close() {
    const seen = await this.page.evaluate(() => (globalThis as { violations?: string[] }).violations ?? [])
    await this.page.context().close()
    expect([...this.violations, ...seen]).toEqual([])
    expect(this.foreign).toEqual([])
  }

  get editor(): Locator {
    return this.page.getByLabel('SQL editor')
  }

  async ready() {
    await this.editor.waitFor({ state: 'attached' })
  }

  // write replaces the text of the tab on screen.
  async write(sql: string) {
    await this.editor.click()
    await this.page.keyboard.press('Control+a')
    await this.page.keyboard.insertText(sql)
  }

  async run(sql: string) {
    await this.write(sql)
    await this.page.keyboard.press('Control+Enter')
  }

  text(): Promise<string> {
    return this.editor.evaluate((e) => [...e.querySelectorAll('.cm-line')].map((l) => l.textContent).join('\n'))
  }

  cell(row: number, column: number): Locator {
    return this.page.locator(`.grid-body [aria-rowindex="${row + 2}"] [role=gridcell][aria-colindex="${column + 2}"]`)
  }

  // marks gives the classes that a cell has had since: a change shows for a second, which a slow machine may miss.
  async marks(row: number, column: number): Promise<() => Promise<string>> {
    const seen = await this.page.evaluateHandle(([row, column]) => {
      const seen: string[] = []
      new MutationObserver(() => {
        const cell = document.querySelector(`.grid-body [aria-rowindex="${row}"] [role=gridcell][aria-colindex="${column}"]`)
        if (cell) seen.push(cell.className)
      }).observe(document.querySelector('.grid-body')!, { subtree: true, childList: true, attributes: true })
      return seen
    }, [row + 2, column + 2] as const)
    return () => seen.evaluate((s) => s.join('\n'))
  }

  stamp(name: string): Locator {
    return this.page.locator('.stamp div', { has: this.page.locator(`dt:text-is("${name}")`) }).locator('dd')
  }

  // audit runs axe over the page, the editor's shadow root included.
  async audit(what: string) {
    await this.page.evaluate(axe)
    const found = await this.page.evaluate(async () => {
      const axe = (globalThis as unknown as { axe: { run(where: Document, how: object): Promise<{ violations: { id: string; nodes: { target: unknown; failureSummary?: string }[] }[] }> } }).axe
      const got = await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      return got.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${JSON.stringify(n.target)} ${n.failureSummary ?? ''}`).join('; ')}`)
    })
    expect(found, what).toEqual([])
  }
}
