"""How the page looks: on a light or a dark screen, and on A4 paper."""

CSS = """
:root { color-scheme: light dark; --ink: #1c2127; --paper: #fff; --soft: #667; --line: #ccd;
  --good: #1f6fb2; --bad: #b65000; --plain: #777; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --paper: #16191d; --soft: #9aa;
  --line: #3a4048; --good: #6cb2f0; --bad: #ff9c4a; --plain: #999; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; margin: .8rem 0; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; } td.id, td.n { white-space: nowrap; }
code { font: .82rem/1.4 ui-monospace, monospace; white-space: pre-wrap; }
.warn { color: var(--bad); font-weight: 600; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .soft { fill: var(--soft); }
svg rect { fill: none; stroke: var(--plain); stroke-width: 1.5; }
svg rect.succeeded { stroke: var(--good); fill: var(--good); fill-opacity: .25; }
svg rect.failed, svg rect.timed_out { stroke: var(--bad); fill: var(--bad); fill-opacity: .2; }
svg rect.interrupted { stroke: var(--bad); stroke-dasharray: 5 3; }
svg line { stroke: var(--line); } svg line.restart { stroke: var(--bad); stroke-dasharray: 4 3; }
svg circle { fill: var(--paper); stroke: var(--ink); stroke-width: 1.5; }
@page { size: A4; margin: 15mm; }
@media print { body { max-width: none; margin: 0; font-size: 10pt; }
  h2, figure { break-after: avoid; } figure, tr { break-inside: avoid; }
  * { print-color-adjust: exact; } }
"""
