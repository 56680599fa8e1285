import { render } from 'preact'
import './style/index.css'
import { signIn, loginNeeded, watch } from './store/connection.ts'
import { showTheme } from './store/prefs.ts'
import { takeToken, watchRoute } from './store/route.ts'
import { watchLive } from './store/runs.ts'
import { openTabs } from './store/tabs.ts'
import { App } from './app.tsx'

showTheme()
const token = takeToken()
if (token !== '') await signIn(token).catch(() => (loginNeeded.value = true))
watchRoute()
openTabs()
watch()
watchLive()
render(<App />, document.getElementById('app')!)
