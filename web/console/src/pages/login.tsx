// The log-in form, for an appliance that listens off loopback.

import { useEffect, useRef, useState } from 'preact/hooks'
import { signIn } from '../store/connection.ts'
import { Button, Mark } from '../ui/parts.tsx'

export function Login() {
  const [token, setToken] = useState('')
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  const submit = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    try {
      await signIn(token.trim().replace(/^.*#token=/, ''))
    } catch (err) {
      setError((err as Error).message)
    }
    setBusy(false)
  }
  return (
    <main class="login">
      <form onSubmit={submit}>
        <Mark />
        <h1>Log in to Weir</h1>
        <p>Weir prints a link that logs in each time it starts. Open that link, or paste it or its token here.</p>
        <label for="token">Token</label>
        <input id="token" ref={field} type="password" autocomplete="current-password" value={token} required aria-describedby={error ? 'token-error' : undefined} aria-invalid={error !== ''} onInput={(e) => setToken(e.currentTarget.value)} />
        {error && <p id="token-error" class="error-text" role="alert">{error}</p>}
        <Button look="primary" type="submit" disabled={busy || token.trim() === ''}>{busy ? 'Logging in …' : 'Log in'}</Button>
        <p class="hint">With containers: <code>docker compose logs weir</code> shows the link.</p>
      </form>
    </main>
  )
}
