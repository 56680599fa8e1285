// The SQL editor: CodeMirror in a shadow root, where its style sheets are adopted ones, which a strict CSP allows.
// Colours come from the page through custom properties. One view, one state per tab.

import { acceptCompletion, autocompletion, closeCompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus, type Completion, type CompletionContext } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, toggleComment } from '@codemirror/commands'
import { bracketMatching, HighlightStyle, indentOnInput, LanguageSupport, syntaxHighlighting } from '@codemirror/language'
import { SQLDialect } from '@codemirror/lang-sql'
import { setDiagnostics } from '@codemirror/lint'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, Prec, type Extension } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, placeholder } from '@codemirror/view'
import { classHighlighter, highlightCode, tags as t } from '@lezer/highlight'
import { split, statementAt } from './split.ts'
import { suggest, type Relation } from './suggest.ts'
import { keywords, types } from './words.ts'

export interface Host {
  changed(id: string, text: string): void
  run(): void
  cancel(): boolean // whether there was something to cancel
  catalog(): readonly Relation[]
}

// Chosen is the SQL that Run means, and where it begins in the text.
export interface Chosen { sql: string; from: number }

const duckdb = SQLDialect.define({
  keywords: keywords.join(' '),
  types: types.join(' '),
  doubleDollarQuotedStrings: true,
  operatorChars: '+-*/<>=~!@#%^&|?:',
  identifierQuotes: '"',
  caseInsensitiveIdentifiers: true,
})

const colours = HighlightStyle.define([
  { tag: [t.keyword, t.operatorKeyword, t.modifier], color: 'var(--sql-keyword)', fontWeight: '600' },
  { tag: t.typeName, color: 'var(--sql-type)' },
  { tag: [t.string, t.special(t.string)], color: 'var(--sql-string)' },
  { tag: [t.number, t.bool, t.null], color: 'var(--sql-number)' },
  { tag: t.comment, color: 'var(--sql-comment)', fontStyle: 'italic' },
  { tag: t.operator, color: 'var(--sql-operator)' },
])

const look = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '13.5px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.6', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--accent)', padding: '10px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--accent)', borderLeftWidth: '2px' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-3)', border: 'none', paddingLeft: '6px' },
  '.cm-activeLine': { backgroundColor: 'var(--line-active)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent', color: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--selection)',
  },
  '.cm-selectionMatch': { backgroundColor: 'var(--match)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--match)', outline: 'none' },
  '.cm-placeholder': { color: 'var(--text-2)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)', color: 'var(--text)', border: '1px solid var(--border)', borderRadius: '8px',
    boxShadow: 'var(--shadow)', overflow: 'hidden',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '12.5px', maxHeight: '17em', minWidth: '20em' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '3px 10px', display: 'flex', gap: '16px', lineHeight: '1.5' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent-fill)', color: 'var(--on-accent)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected] .cm-completionDetail': { color: 'var(--on-accent)' },
  '.cm-completionLabel': { flex: '1' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
  '.cm-completionDetail': { fontStyle: 'normal', color: 'var(--text-2)', fontSize: '11.5px', marginLeft: '0' },
  '.cm-tooltip.cm-completionInfo': { padding: '6px 10px', fontFamily: 'var(--sans)', fontSize: '12.5px', maxWidth: '24em' },
  '.cm-lintRange-error': {
    backgroundImage: 'none', textDecoration: 'underline wavy var(--bad) 1.5px', textUnderlineOffset: '4px',
    backgroundColor: 'var(--bad-soft)',
  },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--bad)', padding: '6px 10px', fontFamily: 'var(--sans)', maxWidth: '40em' },
  '.cm-diagnosticText': { whiteSpace: 'pre-wrap' },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--text)' },
  '.cm-panels.cm-panels-bottom': { borderTop: '1px solid var(--border)' },
  '.cm-panel.cm-search': { fontFamily: 'var(--sans)', padding: '6px 30px 6px 8px' },
  '.cm-panel.cm-search label': { fontSize: '12.5px' },
  '.cm-textfield': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--border-strong)', borderRadius: '5px' },
  '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--border-strong)', borderRadius: '5px' },
  '.cm-searchMatch': { backgroundColor: 'var(--match)' },
})

// Typing over a selection would let the browser copy the colours of the old text into inline styles, which the policy
// refuses, with a report each time. So that case is done here, by way of the input handlers (they close brackets).
const typeOver = EditorView.domEventHandlers({
  beforeinput(e, view) {
    const { state } = view
    const { main, ranges } = state.selection
    if (e.inputType !== 'insertText' || e.data === null || e.isComposing || main.empty || ranges.length > 1) return false
    const text = e.data
    const insert = () => state.update(state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true })
    const handled = state.facet(EditorView.inputHandler).some((h) => h(view, main.from, main.to, text, insert))
    if (!handled) view.dispatch(insert())
    return true
  },
})

export class Editor {
  private readonly view: EditorView
  private readonly states = new Map<string, EditorState>()
  private id = ''

  constructor(parent: HTMLElement, private readonly host: Host) {
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open', delegatesFocus: true })
    root.replaceChildren()
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(':host { display: block; height: 100%; } .cm-editor { height: 100%; }')
    root.adoptedStyleSheets = [sheet]
    const mount = document.createElement('div')
    mount.style.height = '100%'
    root.append(mount)
    this.view = new EditorView({ parent: mount, root })
  }

  // show displays a tab. The text is used when the tab was not shown before, or when it was changed elsewhere.
  show(id: string, text: string) {
    if (this.id !== '' && this.id !== id) this.states.set(this.id, this.view.state)
    const known = id === this.id ? this.view.state : this.states.get(id)
    if (id === this.id && known?.doc.toString() === text) return
    this.id = id
    this.view.setState(
      known?.doc.toString() === text ? known : EditorState.create({ doc: text, extensions: this.extensions(), selection: { anchor: text.length } }),
    )
  }

  forget(id: string) {
    this.states.delete(id)
  }

  // chosen is every statement of the selection, else the statement at the cursor.
  chosen(): Chosen[] {
    const { main } = this.view.state.selection
    const text = this.view.state.doc.toString()
    if (!main.empty) {
      const part = text.slice(main.from, main.to)
      return split(part).map((s) => ({ sql: part.slice(s.from, s.to), from: main.from + s.from }))
    }
    const s = statementAt(text, main.head)
    return s ? [{ sql: text.slice(s.from, s.to), from: s.from }] : []
  }

  // mark underlines the word at an offset as wrong.
  mark(offset: number, message: string) {
    const { doc } = this.view.state
    const from = Math.min(offset, doc.length)
    const word = /^([\w\u0080-\uffff]+|"[^"]*"?|'[^']*'?|\S)/.exec(doc.sliceString(from, from + 200))?.[0].length ?? 0
    const start = word === 0 ? Math.max(0, from - 1) : from
    this.view.dispatch(setDiagnostics(this.view.state, [{ from: start, to: Math.max(start, from + word), severity: 'error', message }]))
  }

  unmark() {
    this.view.dispatch(setDiagnostics(this.view.state, []))
  }

  // goTo puts the cursor at an offset and shows it.
  goTo(offset: number) {
    const anchor = Math.min(offset, this.view.state.doc.length)
    this.view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: 'center' }) })
    this.view.focus()
  }

  // place names an offset the way people do, counted from one.
  place(offset: number): { line: number; column: number } {
    const line = this.view.state.doc.lineAt(Math.min(offset, this.view.state.doc.length))
    return { line: line.number, column: offset - line.from + 1 }
  }

  insert(text: string) {
    this.view.dispatch(this.view.state.replaceSelection(text), { scrollIntoView: true })
    this.view.focus()
  }

  focus() {
    this.view.focus()
  }

  destroy() {
    this.view.destroy()
  }

  private extensions(): Extension {
    const { host } = this
    const run = () => {
      closeCompletion(this.view)
      host.run()
      return true
    }
    return [
      lineNumbers(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      highlightSelectionMatches(),
      search(),
      new LanguageSupport(duckdb.language),
      syntaxHighlighting(colours),
      look,
      typeOver,
      placeholder('Write SQL. Ctrl+Enter runs the statement at the cursor.'),
      autocompletion({ override: [(c) => this.complete(c)], icons: false, maxRenderedOptions: 60 }),
      Prec.high(keymap.of([
        { key: 'Mod-Enter', run },
        { key: 'Shift-Enter', run },
        // A list that has just opened takes no key yet; Tab must not leave the editor then.
        { key: 'Tab', run: (view) => acceptCompletion(view) || completionStatus(view.state) !== null },
        { key: 'Mod-/', run: toggleComment },
      ])),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
      Prec.lowest(keymap.of([{ key: 'Escape', run: () => host.cancel() }])),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': 'SQL editor', spellcheck: 'false', autocorrect: 'off', autocapitalize: 'off' }),
      EditorView.updateListener.of((u) => {
        if (!u.docChanged) return
        host.changed(this.id, u.state.doc.toString())
      }),
    ]
  }

  private complete(c: CompletionContext) {
    const text = c.state.doc.toString()
    const got = suggest(text, c.pos, this.host.catalog())
    if (!got || got.options.length === 0) return null
    if (!c.explicit && got.from === c.pos && text[c.pos - 1] !== '.') return null
    return {
      from: got.from,
      validFor: /^[\w\u0080-\uffff]*$/,
      options: got.options.map((o): Completion => ({
        label: o.label,
        detail: o.detail,
        type: o.kind,
        apply: o.insert,
        boost: o.weight * 10,
        ...(o.info && { info: o.info }),
      })),
    }
  }
}

// paint calls back with the pieces of a SQL text and their classes (tok-keyword and so on).
export function paint(sql: string, piece: (text: string, classes: string) => void) {
  highlightCode(sql, duckdb.language.parser.parse(sql), classHighlighter, piece, () => piece('\n', ''))
}
