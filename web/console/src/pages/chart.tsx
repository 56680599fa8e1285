// A chart of an answer, drawn in SVG. The table holds the same numbers, so to a screen reader it is one image.

import { useEffect, useRef, useState } from 'preact/hooks'
import type { Json } from '../api/json.ts'
import type { Column } from '../api/types.ts'
import { chartOf, ticks, type Chart } from '../grid/chart.ts'
import { visible } from '../grid/text.ts'

const margin = { top: 30, right: 34, bottom: 30, left: 72 }

export function ChartView({ columns, rows, keys }: { columns: readonly Column[]; rows: readonly Json[][]; keys?: readonly number[] }) {
  const host = useRef<HTMLDivElement>(null)
  const [size, setSize] = useState({ width: 800, height: 300 })
  const [hover, setHover] = useState<number | undefined>()
  const [measure, setMeasure] = useState<number | undefined>()
  useEffect(() => {
    const watch = new ResizeObserver(([e]) => e && setSize({ width: e.contentRect.width, height: Math.max(160, e.contentRect.height) }))
    watch.observe(host.current!)
    return () => watch.disconnect()
  }, [])
  const chart = chartOf(columns, rows, measure, keys)
  if (!chart) return null
  return (
    <div class="chart">
      {chart.kind === 'bars' && chart.measures.length > 1 && (
        <label class="measure">Bars of <select onChange={(e) => setMeasure(Number(e.currentTarget.value))}>
          {chart.measures.map((m) => <option key={m.column} value={m.column} selected={m.name === chart.series[0]!.name}>{visible(m.name)}</option>)}
        </select></label>
      )}
      <div class="canvas" ref={host}>
      <svg width={size.width} height={size.height} role="img" aria-label={`${chart.kind === 'line' ? 'Line' : 'Bar'} chart of ${chart.series.map((s) => visible(s.name)).join(', ')} by ${visible(chart.label)}`}
        onPointerMove={(e) => setHover(nearest(chart, size, e))} onPointerLeave={() => setHover(undefined)}>
        <Drawing chart={chart} {...size} hover={hover} />
      </svg>
      </div>
      {chart.left > 0 && <p class="foot">The first {chart.labels.length} of {chart.labels.length + chart.left} rows.</p>}
    </div>
  )
}

function Drawing({ chart, width, height, hover }: { chart: Chart; width: number; height: number; hover: number | undefined }) {
  const all = chart.series.flatMap((s) => s.values).filter((v) => v !== null)
  const low = Math.min(0, ...all)
  const marks = ticks(low, Math.max(...all, low))
  const bottom = marks[0]!
  const top = marks.at(-1)!
  const inner = { w: Math.max(10, width - margin.left - margin.right), h: Math.max(10, height - margin.top - margin.bottom) }
  const y = (v: number) => margin.top + inner.h * (1 - (v - bottom) / (top - bottom))
  const x = place(chart, inner.w)
  const room = Math.min(112, 16 + 7 * Math.max(...chart.labels.map((l) => l.length)))
  const step = Math.max(1, Math.ceil(chart.labels.length / Math.max(1, Math.floor(inner.w / room))))
  return (
    <>
      {marks.map((m) => (
        <g key={m}>
          <line class="rule" x1={margin.left} x2={width - margin.right} y1={y(m)} y2={y(m)} />
          <text x={margin.left - 8} y={y(m) + 4} text-anchor="end">{short(m)}</text>
        </g>
      ))}
      {chart.labels.map((l, i) => i % step === 0 && <text key={i} x={x(i)} y={height - 10} text-anchor="middle">{clip(l, chart.kind === 'line' ? 16 : 14)}</text>)}
      {chart.kind === 'bars' && chart.series[0]!.values.map((v, i) => {
        if (v === null) return null
        const w = Math.max(2, Math.min(64, (inner.w / chart.labels.length) * 0.72))
        return <rect key={i} class={`bar ${i === hover ? 'hover' : ''}`} x={x(i) - w / 2} width={w} y={Math.min(y(v), y(0))} height={Math.max(1, Math.abs(y(v) - y(0)))} rx="2" />
      })}
      {chart.kind === 'line' && chart.series.map((s, n) => <path key={s.name} class={`line s${n}`} d={path(s.values, x, y)} />)}
      {(chart.kind === 'line' || chart.measures.length === 1) && chart.series.map((s, n) => (
        <g key={s.name} class="legend" transform={`translate(${margin.left + n * 170}, 16)`}>
          <rect class={`swatch s${n}`} y="-8" width="10" height="10" rx="2" />
          <text x="16" y="1">{clip(visible(s.name), 20)}</text>
        </g>
      ))}
      {hover !== undefined && chart.labels[hover] !== undefined && (
        <g class="tip" transform={`translate(${Math.min(Math.max(x(hover), margin.left + 90), width - 110)}, ${margin.top})`}>
          {chart.kind === 'line' && <line class="cross" x1={x(hover) - Math.min(Math.max(x(hover), margin.left + 90), width - 110)} x2={x(hover) - Math.min(Math.max(x(hover), margin.left + 90), width - 110)} y1="0" y2={inner.h} />}
          <rect class="tip-box" x="-90" y="0" width="180" height={22 + 16 * chart.series.length} rx="5" />
          <text x="-80" y="16" class="strong">{clip(chart.labels[hover]!, 24)}</text>
          {chart.series.map((s, n) => <text key={s.name} x="-80" y={32 + n * 16}>{`${clip(visible(s.name), 12)} ${s.values[hover] ?? 'NULL'}`}</text>)}
        </g>
      )}
    </>
  )
}

function place(chart: Chart, width: number): (i: number) => number {
  const n = chart.labels.length
  if (chart.kind === 'bars') return (i) => margin.left + ((i + 0.5) * width) / n
  return (i) => margin.left + (n < 2 ? width / 2 : (i * width) / (n - 1))
}

function nearest(chart: Chart, size: { width: number }, e: PointerEvent): number {
  const width = size.width - margin.left - margin.right
  const n = chart.labels.length
  const at = (e.offsetX - margin.left) / Math.max(1, width)
  const i = chart.kind === 'bars' ? Math.floor(at * n) : Math.round(at * (n - 1))
  return Math.max(0, Math.min(n - 1, i))
}

function path(values: (number | null)[], x: (i: number) => number, y: (v: number) => number): string {
  let out = ''
  let pen = 'M'
  values.forEach((v, i) => {
    if (v === null) pen = 'M'
    else {
      out += `${pen}${x(i).toFixed(1)},${y(v).toFixed(1)}`
      pen = 'L'
    }
  })
  return out
}

const clip = (s: string, n: number) => (s.length > n ? s.slice(0, n - 1) + '…' : s)

const short = (n: number) => new Intl.NumberFormat('en', { notation: Math.abs(n) >= 1_000_000 ? 'compact' : 'standard', maximumFractionDigits: 3 }).format(n)
