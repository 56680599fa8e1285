// When epochs were committed. Answers carry an epoch, the status and the events say when one was committed; between
// two known epochs the time is interpolated.

const kept = 600

export class Commits {
  // skew is this machine's clock minus the server's in milliseconds, or 0 while they agree within two seconds: the
  // server's Date header has whole seconds.
  skew = 0
  private known: { epoch: number; at: number }[] = []

  measure(serverTime: number, now: number) {
    const skew = now - (serverTime + 500)
    if (!Number.isNaN(skew)) this.skew = Math.abs(skew) > 2000 ? skew : 0
  }

  // forget is for a server that was started anew: its epochs may be counted from another state.
  forget() {
    this.known = []
  }

  // saw takes one fact. What arrives late is of no use.
  saw(epoch: number, at: number) {
    if (!(at > 0)) return // before the first commit
    if (epoch <= (this.known.at(-1)?.epoch ?? -1)) return
    this.known.push({ epoch, at })
    if (this.known.length > kept) this.known.shift()
  }

  // ageOf is how old the data of an epoch was at a moment of this machine's clock, or undefined when nothing is known.
  ageOf(epoch: number, now: number): number | undefined {
    const i = this.known.findLastIndex((k) => k.epoch <= epoch)
    const before = this.known[i]
    const after = this.known[i + 1]
    if (!before) return undefined
    const share = after ? (epoch - before.epoch) / (after.epoch - before.epoch) : 0
    const at = before.at + share * ((after?.at ?? 0) - before.at)
    return Math.max(0, now - this.skew - at)
  }
}
