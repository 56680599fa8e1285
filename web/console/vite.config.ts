import { readFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type Plugin } from 'vite'

// The build is deterministic: names carry a hash of the content, nothing carries a date or a path.
// There is no inline script or style, and no preload polyfill, so the strict CSP of the server holds.
export default defineConfig({
  base: './',
  plugins: [notices()],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: { '/api': process.env.WEIR_URL ?? 'http://127.0.0.1:8080' },
  },
  test: { include: ['test/unit/**/*.test.ts'] },
} as Parameters<typeof defineConfig>[0])

// notices writes the licence text of every package that ends up in the bundle.
function notices(): Plugin {
  return {
    name: 'notices',
    apply: 'build',
    generateBundle() {
      const dirs = new Map<string, string>()
      for (const id of this.getModuleIds()) {
        const m = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id.replaceAll('\\', '/'))
        if (m) dirs.set(m[2]!, m[1]!)
      }
      let out = 'The console contains these packages, each under its own licence.\n'
      for (const [name, dir] of [...dirs].sort(([a], [b]) => (a < b ? -1 : 1))) {
        const pkg = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'))
        const file = ['LICENSE', 'LICENSE.md', 'LICENSE.txt', 'license'].find((f) => existsSync(join(dir, f)))
        out += `\n----- ${name} ${pkg.version} (${pkg.license})\n\n`
        if (file) out += readFileSync(join(dir, file), 'utf8').trim() + '\n'
      }
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: out })
    },
  }
}
