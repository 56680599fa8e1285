// Live re-runs a statement when there is a new epoch to see, and never more than that.
//
// Invariants: one run at a time; epochs that pass meanwhile collapse into one more run (latest wins, nothing queues);
// between two starts lie at least five times the last run's duration, so that a watched query can't take more than a
// fifth of a core's time; nothing runs while the tab is hidden. A refusal by the server ends it, an outage does not.

export type Outcome =
  | { ok: true; epoch: number; ms: number }
  | { ok: false; permanent: boolean; ms: number }

export type LiveState = 'off' | 'current' | 'running' | 'waiting' | 'hidden' | 'failed'

export interface Host {
  run(): Promise<Outcome>
  now(): number // milliseconds, monotonic
  changed(state: LiveState): void
}

const minInterval = 250
const factor = 5
const maxRetry = 30_000

export class Live {
  private on = false
  private visible = true
  private running = false
  private shown = -1 // epoch of the newest answer
  private newest = -1 // newest epoch heard of
  private notBefore = 0
  private failures = 0
  private generation = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private said: LiveState = 'off'

  constructor(private readonly host: Host) {}

  // start turns it on. The epoch is that of the answer on screen, or -1 when there is none: then it runs at once.
  start(shown: number) {
    this.stop()
    this.on = true
    this.shown = shown
    this.failures = 0
    this.next()
  }

  stop(state: LiveState = 'off') {
    this.on = false
    this.running = false
    this.generation++
    clearTimeout(this.timer)
    this.say(state)
  }

  // sawEpoch tells it of an epoch; older ones than the newest are of no interest. A smaller number after a restart of
  // the server is told by reset.
  sawEpoch(epoch: number) {
    if (epoch <= this.newest) return
    this.newest = epoch
    this.next()
  }

  // reset forgets what it knows of epochs: the server was started over another state.
  reset(epoch: number) {
    this.newest = epoch
    this.shown = -1
    this.next()
  }

  setVisible(visible: boolean) {
    if (this.visible === visible) return
    this.visible = visible
    this.next()
  }

  private next() {
    clearTimeout(this.timer)
    if (!this.on || this.running) return
    if (!this.visible) return this.say('hidden')
    if (this.shown >= this.newest && this.shown >= 0) return this.say('current')
    const wait = this.notBefore - this.host.now()
    if (wait > 0) {
      this.say('waiting')
      this.timer = setTimeout(() => this.next(), wait)
      return
    }
    void this.run()
  }

  private async run() {
    const generation = this.generation
    const start = this.host.now()
    this.running = true
    this.say('running')
    const got = await this.host.run()
    if (generation !== this.generation) return
    this.running = false
    this.notBefore = start + Math.max(minInterval, factor * got.ms)
    if (got.ok) {
      this.failures = 0
      this.shown = got.epoch
      this.newest = Math.max(this.newest, got.epoch)
    } else if (got.permanent) {
      return this.stop('failed')
    } else {
      this.notBefore = this.host.now() + Math.min(maxRetry, 1000 * 2 ** this.failures++)
    }
    this.next()
  }

  private say(state: LiveState) {
    if (state === this.said) return
    this.said = state
    this.host.changed(state)
  }
}
