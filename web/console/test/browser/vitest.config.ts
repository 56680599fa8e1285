import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

// One browser, one file after the other. The console must have been built.
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['test/browser/console.test.ts', ...(process.env.WEIR_URL ? ['test/browser/real.test.ts'] : [])],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 8000 } },
  },
})
