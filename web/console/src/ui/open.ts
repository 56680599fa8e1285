// From another page to the editor: opens SQL in a tab of its own, and runs it when asked.

import { go } from '../store/route.ts'
import { run } from '../store/runs.ts'
import { activeId, newTab } from '../store/tabs.ts'

export function openInEditor(sql: string, runIt: boolean) {
  newTab(sql + (sql.trimEnd().endsWith(';') ? '\n' : ';\n'))
  go('query')
  if (runIt) void run(activeId.peek(), sql.trim().replace(/;\s*$/, ''), 0)
}
