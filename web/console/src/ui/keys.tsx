// The sheet of keyboard shortcuts.

import { Dialog } from './parts.tsx'

const mod = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl'

const groups: [string, [string, string][]][] = [
  ['Editor', [
    [`${mod} Enter`, 'Run the statement at the cursor, or those selected in turn'],
    ['Esc', 'Cancel the running statement'],
    [`${mod} Space`, 'Completion'],
    [`${mod} /`, 'Comment the line'],
    [`${mod} F`, 'Find and replace'],
    ['Tab', 'Take the completion, else leave the editor'],
  ]],
  ['Results', [
    ['← ↑ → ↓', 'Move; with Shift select, with Ctrl to the edge'],
    ['Enter', 'Whole value of the cell; on a header, sort'],
    [`${mod} C`, 'Copy the selection as TSV'],
    ['Shift Space', 'Select the row'],
    [`${mod} A`, 'Select all'],
    ['Alt ← →', 'On a header: column narrower or wider'],
  ]],
  ['Anywhere', [
    ['?', 'This sheet'],
    ['Tab', 'Next control'],
  ]],
]

export function Keys({ close }: { close(): void }) {
  return (
    <Dialog title="Keyboard" close={close}>
      {groups.map(([name, keys]) => (
        <section key={name} class="keys">
          <h3>{name}</h3>
          <dl>
            {keys.map(([key, what]) => (
              <div key={key}>
                <dt>{key.split(' ').map((k) => <kbd key={k}>{k}</kbd>)}</dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  )
}
