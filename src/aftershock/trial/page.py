"""One HTML page about one or several trials: what users saw, the verdicts, and the checks behind them.

Everything is inside the file: it can be mailed, archived and opened without a network.
"""

import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aftershock.trial.chart import STYLE, TrialView, draw, read_view

__all__ = ["render", "write_page"]

VERDICTS = {
    "succeeded": "good",
    "failed": "bad",
    "unsafe": "bad",
    "ambiguous": "open",
    "infra_error": "open",
    "invalid_problem": "open",
}
RESULTS = {
    "pass": ("good", "✓ pass"),
    "fail": ("bad", "✗ fail"),
    "unknown": ("open", "? unknown"),
    "skipped": ("open", "– skipped"),
}
LAYOUT = """
*{box-sizing:border-box}
body.as{margin:0;background:var(--plot);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:24px;margin:0 0 4px} h2{font-size:18px;margin:0;font-weight:600} p{margin:6px 0} .soft{color:var(--soft)}
section{border:1px solid var(--line);border-radius:10px;padding:20px 22px;margin:26px 0 0;background:var(--card)}
.as{--card:#fff} @media (prefers-color-scheme:dark){.as{--card:#1b212b}}
header.trial{display:flex;gap:12px;align-items:center;flex-wrap:wrap;margin-bottom:6px}
.badge{border-radius:99px;padding:2px 12px;font-size:13px;font-weight:600;color:#fff}
.badge.good{background:var(--good)} .badge.bad{background:var(--bad)} .badge.open{background:var(--judge)}
dl{display:flex;flex-wrap:wrap;gap:6px 30px;margin:14px 0 4px} dl div{min-width:80px}
dt{font-size:12px;color:var(--soft)} dd{margin:0;font-variant-numeric:tabular-nums;font-weight:600}
.scroll{overflow-x:auto} table{border-collapse:collapse;width:100%;margin-top:12px;font-size:13.5px}
th{text-align:left;color:var(--soft);font-weight:500;font-size:12px}
th,td{padding:7px 10px 7px 0;border-top:1px solid var(--line);vertical-align:top} thead th{border-top:0}
td.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap} td .why{color:var(--soft)}
td.result{white-space:nowrap;font-weight:600}
.good-text{color:var(--good)} .bad-text{color:var(--bad)} .open-text{color:var(--soft)}
code{font:12.5px ui-monospace,SFMono-Regular,Menlo,monospace} svg.as{width:100%;height:auto;display:block}
""".strip()


def write_page(folders: Sequence[Path], out: Path, *, title: str = "") -> Path:
    """Write the page about the trials in these folders; a picture of each is put beside its record."""
    views = [read_view(folder) for folder in folders]
    for folder, view in zip(folders, views, strict=True):
        (folder / "users.svg").write_text(draw(view))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(views, title=title))
    return out


def render(views: Sequence[TrialView], *, title: str = "") -> str:
    """The page as text. All trials share one time axis."""
    span = max((view.seconds for view in views), default=0.0)
    heading = html.escape(title or (views[0].document["title"] if views else "no trials"))
    lead = f"{len(views)} trials" if len(views) != 1 else "one trial"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{heading}</title><style>{STYLE}\n{LAYOUT}</style></head>",
        f'<body class="as"><main><h1>{heading}</h1>',
        f'<p class="soft">What the users of a live cluster saw, from outside, in {lead}: the share of their requests',
        "that were served, and how long they waited.</p>",
        *(part for view in views for part in _trial(view, span)),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _trial(view: TrialView, span: float) -> Iterator[str]:
    document = view.document
    verdict = str(document["verdict"] or document["state"])
    badge = f'<span class="badge {VERDICTS.get(verdict, "open")}">{html.escape(verdict.replace("_", " "))}</span>'
    yield f'<section><header class="trial"><h2>{html.escape(document["agent"])}</h2>{badge}'
    yield f'<span class="soft">{html.escape(document["problem"])}</span></header>'
    yield f"<p>{html.escape(document['why'])}</p>"
    yield draw(view, seconds=span, style=False) if view.series else '<p class="soft">No user came so far.</p>'
    yield f"<dl>{''.join(_facts(document))}</dl>"
    yield from _checks(document["checks"])
    yield "</section>"


def _facts(document: dict[str, Any]) -> Iterator[str]:
    for name in ("total", "restore", "agent", "judge"):
        yield f"<div><dt>{name}</dt><dd>{document['seconds'].get(name, 0.0):.1f} s</dd></div>"
    if harm := document["harm"]:
        yield f"<div><dt>requests not served</dt><dd>{harm['failed']} of {harm['due']}</dd></div>"
        yield f"<div><dt>minutes with failures</dt><dd>{harm['minutes_failed']:.1f}</dd></div>"
        yield f"<div><dt>requests over 1 s</dt><dd>{harm['slow']}</dd></div>"


def _checks(checks: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not checks:
        return
    yield '<div class="scroll"><table><thead><tr><th>check</th><th>family</th><th>result</th>'
    yield '<th>what was found</th><th style="text-align:right">seconds</th></tr></thead><tbody>'
    for check in checks:
        kind, text = RESULTS[check["result"]]
        yield f"<tr><td><code>{html.escape(check['id'])}</code></td><td>{html.escape(check['family'])}</td>"
        yield f'<td class="result {kind}-text">{text}</td>'
        yield f'<td>{html.escape(check["said"])}<div class="why">{html.escape(check["why"])}</div></td>'
        yield f'<td class="num">{check["seconds"]:.1f}</td></tr>'
    yield "</tbody></table></div>"
