"""How the page of a report looks: light and dark, wide and narrow, on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fdfdfc; --raised: #f4f4f1; --text: #1c1d1f; --quiet: #66696f; --line: #dcdcd6; --link: #0a5fa8;
  --better: #0a6b3d; --worse: #a8330f;
  --masculine: #0a5fa8; --feminine: #a3225f; --neuter: #0f6e5b; --formal: #6a3fb0; --informal: #9a5a00;
  --in-source: #55585e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #16181b; --raised: #1f2226; --text: #e4e4e0; --quiet: #a0a4aa; --line: #363a40; --link: #7dbcf2;
    --better: #63c98f; --worse: #f0906c;
    --masculine: #7dbcf2; --feminine: #f190bf; --neuter: #6fd0b9; --formal: #bfa2f5; --informal: #e9b25c;
    --in-source: #b7bac0;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body {
  margin: 0 auto; padding: 1.5rem clamp(0.9rem, 3vw, 2.5rem) 5rem; max-width: 100rem;
  background: var(--ground); color: var(--text); font: 1rem/1.55 system-ui, sans-serif;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.3rem; margin: 3rem 0 0.5rem; padding-top: 0.8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 0.4rem; }
h4 { font-size: 0.95rem; margin: 1.2rem 0 0.3rem; }
p { max-width: 46rem; margin: 0.4rem 0; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 0.15em; }
small, .note { color: var(--quiet); font-size: 0.82rem; }
nav ul { list-style: none; margin: 0.8rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; }
.scroll {
  overflow: auto; max-height: min(85vh, 60rem); max-width: 100%; width: fit-content;
  border: 1px solid var(--line); border-radius: 6px;
}
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: separate; border-spacing: 0; font-size: 0.88rem; line-height: 1.35; }
th, td { padding: 0.4rem 0.7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom-color: transparent; }
tbody:not(:last-child) tr:last-child > * { border-bottom-color: var(--line); }
thead { position: sticky; top: 0; z-index: 3; }
thead th { background: var(--raised); font-weight: 600; vertical-align: bottom; }
thead th small { display: block; font-weight: 400; max-width: 12rem; }
thtd:not(.number) { min-width: 9.5rem; }
.number { text-align: right; }
th.number small { margin-left: auto; }
th.group { text-align: center; border-left: 1px solid var(--line); }
th.group + th { border-left: 1px solid var(--line); }
td small, tbody th small { display: block; white-space: nowrap; font-weight: 400; }
td:not(.number) { min-width: 9.5rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number { white-space: normal; }
tbody th { font-weight: 500; background: var(--ground); position: sticky; left: 0; z-index: 1; white-space: nowrap; }
thead th:first-child { position: sticky; left: 0; z-index: 4; }
tr.block th { background: var(--raised); font-weight: 600; position: static; }
tr.block span { position: sticky; left: 0.7rem; }
tbody tr:not(.block):hover > * { background: var(--raised); }
.better { color: var(--better); font-weight: 600; }
.worse { color: var(--worse); font-weight: 600; }
.unclear, .missing { color: var(--quiet); }
figure { margin: 1rem 0; display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: end; }
figcaption { flex-basis: 100%; }
figure svg { flex: 1 1 20rem; height: auto; }
details { margin: 0.4rem 0; border: 1px solid var(--line); border-radius: 6px; padding: 0 0.8rem; }
details[open] { padding-bottom: 0.8rem; }
summary { cursor: pointer; padding: 0.45rem 0; }
pre {
  margin: 0.4rem 0; padding: 0.6rem 0.8rem; background: var(--raised); border-radius: 6px; font-size: 0.82rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 1rem; margin: 0.5rem 0; font-size: 0.85rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
fieldset {
  display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 0.8rem 0; padding: 0.5rem 0.8rem;
  border: 1px solid var(--line); border-radius: 6px; font-size: 0.88rem;
}
legend { color: var(--quiet); padding: 0 0.3rem; }
label { white-space: nowrap; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 0.6rem 0; padding: 0; }
.sentences { table-layout: fixed; width: 100%; font-size: 0.92rem; line-height: 1.5; }
.sentences th:first-child { width: 3.4rem; min-width: 3.4rem; color: var(--quiet); }
.sentences td:not(.number) { min-width: 0; overflow-wrap: anywhere; }
.document .scroll { width: auto; }
.reference { background: color-mix(in srgb, var(--raised) 60%, transparent); }
.sentences abbr { text-decoration: none; color: var(--informal); }
.status {
  display: inline-block; padding: 0 0.4em; border: 1px solid currentColor; border-radius: 4px; color: var(--worse);
  font-size: 0.75rem; line-height: 1.4; white-space: nowrap;
}
.nothing { color: var(--quiet); }
mark {
  background: none; color: inherit; font-weight: 600; text-underline-offset: 0.2em; text-decoration: underline 2px;
}
mark.it, mark.you {
  color: var(--in-source); text-decoration: none; border: 1.5px solid; border-radius: 4px; padding: 0 0.2em;
  font-weight: 500;
}
mark.you { border-style: dashed; }
mark.masculine { color: var(--masculine); text-decoration-style: solid; }
mark.feminine { color: var(--feminine); text-decoration-style: double; }
mark.neuter { color: var(--neuter); text-decoration-style: dotted; text-decoration-thickness: 3px; }
mark.formal { color: var(--formal); text-decoration-style: wavy; text-decoration-thickness: 1.5px; }
mark.informal { color: var(--informal); text-decoration-style: dashed; }
@media (max-width: 40rem) {
  td:not(.number) { min-width: 7rem; }
  body { font-size: 0.97rem; }
  tbody th { min-width: 7rem; max-width: 9.5rem; white-space: normal; overflow-wrap: anywhere; }
  td small, tbody th small { white-space: normal; }
  td.number small { white-space: nowrap; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 0.3rem; }
  /* a sentence becomes a card, its translations one below the other */
  .document { padding: 0 0.5rem; }
  .document .scroll { max-height: none; border: 0; }
  .sentences, .sentences tbody, .sentences td, .sentences tbody th { display: block; width: auto; }
  table.sentences { min-width: 0 !important; }
  .sentences thead { display: none; }
  .sentences tr { display: block; margin: 0.7rem 0; border: 1px solid var(--line); border-radius: 6px; }
  .sentences tbody th:first-child { background: var(--raised); position: static; width: auto; max-width: none; }
  .sentences td::before {
    content: attr(data-name); display: block; color: var(--quiet); font-size: 0.75rem; overflow-wrap: anywhere;
  }
  .sentences td:last-child { border-bottom: 0; }
  label { white-space: normal; }
}
@media print {
  .scroll { max-height: none; overflow: visible; border: 0; }
  thead, tbody th { position: static !important; }
}
"""
