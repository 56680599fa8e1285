import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Live, type LiveState, type Outcome } from '../../src/live/live.ts'

// Bench runs a Live over fake time. Each run takes `takes` milliseconds and answers with the newest epoch at its start.
class Bench {
  takes = 10
  epoch = 1
  fail: Outcome | undefined
  starts: number[] = []
  open = 0
  mostOpen = 0
  states: LiveState[] = []
  live = new Live({
    now: () => performance.now(),
    changed: (s) => this.states.push(s),
    run: () => {
      this.starts.push(performance.now())
      this.mostOpen = Math.max(this.mostOpen, ++this.open)
      const { epoch, takes, fail } = this
      return new Promise((done) => setTimeout(() => {
        this.open--
        done(fail ?? { ok: true, epoch, ms: takes })
      }, takes))
    },
  })

  commit() {
    this.live.sawEpoch(++this.epoch)
  }
}

let b: Bench
beforeEach(() => {
  vi.useFakeTimers()
  b = new Bench()
})
afterEach(() => vi.useRealTimers())

// commits makes commits every `every` ms for `for` ms.
async function commits(every: number, during: number) {
  for (let t = 0; t < during; t += every) {
    b.commit()
    await vi.advanceTimersByTimeAsync(every)
  }
}

test('without an answer it runs at once, then waits for a new epoch', async () => {
  b.live.start(-1)
  await vi.advanceTimersByTimeAsync(5000)
  expect(b.starts.length).toBe(1)
  expect(b.states.at(-1)).toBe('current')
  b.commit()
  await vi.advanceTimersByTimeAsync(5000)
  expect(b.starts.length).toBe(2)
})

test('an answer of the newest epoch is not run again', async () => {
  b.live.sawEpoch(7)
  b.live.start(7)
  await vi.advanceTimersByTimeAsync(5000)
  expect(b.starts).toEqual([])
})

test('one run at a time, and nothing queues', async () => {
  b.takes = 700
  b.live.start(0)
  await commits(50, 600) // twelve epochs during the first run
  await vi.advanceTimersByTimeAsync(60_000)
  expect(b.mostOpen).toBe(1)
  expect(b.starts.length).toBe(2)
})

test.each([20, 200, 1000])('a run of %d ms takes at most a fifth of the time', async (takes) => {
  b.takes = takes
  b.live.start(0)
  await commits(100, 30_000)
  const gaps = b.starts.slice(1).map((t, i) => t - b.starts[i]!)
  expect(gaps.length).toBeGreaterThan(3)
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(Math.max(250, takes * 5))
  expect(Math.max(...gaps)).toBeLessThanOrEqual(Math.max(250, takes * 5) + 100)
})

test('hidden, it does not run; shown again, it does once', async () => {
  b.live.start(1)
  b.live.setVisible(false)
  await commits(100, 5000)
  expect(b.starts.length).toBe(0)
  expect(b.states.at(-1)).toBe('hidden')
  b.live.setVisible(true)
  await vi.advanceTimersByTimeAsync(5000)
  expect(b.starts.length).toBe(1)
})

test('stopped, it does not run, and a late answer changes nothing', async () => {
  b.takes = 1000
  b.live.start(-1)
  b.live.stop()
  await vi.advanceTimersByTimeAsync(2000)
  b.commit()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(b.starts.length).toBe(1)
  expect(b.states.at(-1)).toBe('off')
})

test('a refusal ends it', async () => {
  b.fail = { ok: false, permanent: true, ms: 5 }
  b.live.start(-1)
  await commits(100, 5000)
  expect(b.starts.length).toBe(1)
  expect(b.states.at(-1)).toBe('failed')
})

test('an outage is tried again, ever more slowly, and ends', async () => {
  b.fail = { ok: false, permanent: false, ms: 5 }
  b.live.start(-1)
  await vi.advanceTimersByTimeAsync(200_000)
  const gaps = b.starts.slice(1).map((t, i) => Math.round((t - b.starts[i]!) / 1000))
  expect(gaps.slice(0, 7)).toEqual([1, 2, 4, 8, 16, 30, 30])
  b.fail = undefined
  await vi.advanceTimersByTimeAsync(40_000)
  expect(b.states.at(-1)).toBe('current')
})

test('a server with a smaller epoch is another server: run again', async () => {
  b.live.sawEpoch(100)
  b.live.start(100)
  b.epoch = 3
  b.live.reset(3)
  await vi.advanceTimersByTimeAsync(5000)
  expect(b.starts.length).toBe(1)
  b.commit()
  await vi.advanceTimersByTimeAsync(5000)
  expect(b.starts.length).toBe(2)
})
