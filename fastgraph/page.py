"""Pages of HTML that need nothing beside them: their style, tables, parts that open. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .text import visible

_LIGHT = (
    "--ink:#1c2128;--soft:#5f6b7a;--line:#d8dee6;--paper:#ffffff;--mild:#f4f6f9;--good:#1a7f37;--bad:#b42318;"
    "--c0:#2f6fb5;--c1:#c2600e;--c2:#2e8548;--c3:#8a4bb0;--c4:#a8313f;--c5:#0f7d85;--c6:#7d6608;--c7:#5a6472;"
)
_DARK = (
    "--ink:#e3e8ee;--soft:#9aa7b6;--line:#38424e;--paper:#14181d;--mild:#1d232b;--good:#5fc77a;--bad:#ff8a80;"
    "--c0:#6cabf0;--c1:#f0a35c;--c2:#72c98b;--c3:#c79be8;--c4:#f08a94;--c5:#5fc9d1;--c6:#d9c25a;--c7:#a3afbd;"
)
COLORS = 8
"""Of different series: var(--c0) and on."""
STYLE = f"""
.fastgraph{{{_LIGHT}color:var(--ink);background:var(--paper);font:14px/1.45 system-ui,sans-serif}}
@media (prefers-color-scheme:dark){{.fastgraph{{{_DARK}}}}}
.fastgraph *{{box-sizing:border-box}}
.fastgraph h1{{font-size:1.5em;margin:.2em 0;overflow-wrap:anywhere}}
.fastgraph h2{{font-size:1.15em;margin:1.6em 0 .4em;padding-top:.6em;border-top:1px solid var(--line)}}
.fastgraph h3{{font-size:1em;margin:1.2em 0 .3em}}
.fastgraph p{{margin:.3em 0;max-width:75em}} .fastgraph .soft{{color:var(--soft)}}
.fastgraph .wide{{overflow-x:auto;max-width:100%}} .fastgraph .tall{{overflow:auto;max-height:70vh}}
.fastgraph table{{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0;color:var(--ink)}}
.fastgraph th,.fastgraph td{{padding:.18em .8em .18em 0;text-align:left;vertical-align:top;white-space:nowrap;
border-bottom:1px solid var(--line);background:none}}
.fastgraph th{{font-weight:600;color:var(--soft)}} .fastgraph .r{{text-align:right}}
.fastgraph tr.facts td{{white-space:normal;overflow-wrap:anywhere;text-align:left}}
.fastgraph tr.facts td:first-child{{color:var(--soft);white-space:nowrap}}
.fastgraph summary{{cursor:pointer;padding:.25em 0;font-weight:600}}
.fastgraph .cards{{display:flex;flex-wrap:wrap;gap:.6em;margin:.6em 0}}
.fastgraph .cards div{{background:var(--mild);border:1px solid var(--line);border-radius:6px;padding:.5em .9em}}
.fastgraph .cards b{{display:block;font-size:1.25em}} .fastgraph .cards span{{color:var(--soft)}}
.fastgraph .good{{color:var(--good)}} .fastgraph .bad{{color:var(--bad);font-weight:600}}
.fastgraph .bars{{display:grid;grid-template-columns:fit-content(38%) minmax(3em,1fr) fit-content(45%);gap:1px .7em;
font-size:12px;align-items:center;max-width:70em}} .fastgraph .bars span{{overflow:hidden;text-overflow:ellipsis;
white-space:nowrap;text-align:right}} .fastgraph .bars b{{display:block}} .fastgraph .bars em{{font-style:normal;
color:var(--soft)}} .fastgraph .bars i{{display:block;height:1.15em;min-width:1px;border-radius:2px}}
.fastgraph svg{{display:block}} .fastgraph svg text{{fill:var(--ink);font:11px system-ui,sans-serif}}
.fastgraph svg .soft{{fill:var(--soft)}} .fastgraph svg .grid{{stroke:var(--line);stroke-width:1}}
.fastgraph svg .over{{fill:var(--paper);font-size:10px}}
""".strip()


def safe(text: object) -> str:
    """Text for HTML and SVG; characters that can't be shown as escapes."""
    return escape(visible(str(text)))


def page(title: str, body: str) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    style = f"{STYLE}\nbody.fastgraph{{margin:0 auto;padding:1.2em;max-width:82em}}"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{safe(title)}</title><style>{style}</style></head>'
        f'<body class="fastgraph">\n{body}\n</body></html>\n'
    )


def html_table(rows: Sequence[Sequence[str]], right: Sequence[int] = (), head: bool = True) -> str:
    """A table whose first row is its head; without it a list of facts, each a title and what is said of it."""
    lines = []
    for n, row in enumerate(rows):
        if n == 0 and not head:
            continue
        kind = "th" if n == 0 else "td"
        cells = (f"<{kind}{_side(i in right)}>{safe(cell)}</{kind}>" for i, cell in enumerate(row))
        lines.append(f"<tr{'' if head else ' class=facts'}>{''.join(cells)}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _side(right: bool) -> str:
    return ' class="r"' if right else ""


def details(title: str, body: str, opened: bool = False) -> str:
    """A part that opens; large ones scroll."""
    mark = " open" if opened else ""
    return f'<details{mark}><summary>{safe(title)}</summary><div class="tall">{body}</div></details>'


def cards(facts: Sequence[tuple[str, str]]) -> str:
    """Figures beside each other, each with what it is."""
    return f'<div class="cards">{"".join(f"<div><b>{safe(a)}</b><span>{safe(b)}</span></div>" for a, b in facts)}</div>'
