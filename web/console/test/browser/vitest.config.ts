import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

// One browser, one file after the other. The console must have been built.
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: ['test/browser/console.test.ts', ...(process.env.WEIR_URL ? ['test/browser/real.test.ts'] : [])],
    fileParallelism: false,
    testTimeout: 120_000, // both are for a machine that is busy with other things
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
  },
})
