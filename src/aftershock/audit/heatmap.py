"""The heat map of an audit as one HTML file: cells by checks, what each cell came to, and what follows.

Everything is inside the file. Results are told by a sign as well as by colour.
"""

import html
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["render", "write_heatmap"]

SIGNS = {"pass": ("pass", "·"), "fail": ("fail", "✗"), "unknown": ("unknown", "?"), "skipped": ("skipped", "–")}
GROUPS = {
    "static": "Without a cluster",
    "nop": "Nobody answers",
    "read-off": "Seen while nobody answers",
    "right": "Right fixes: must pass",
    "without": "Right fixes with a step left out: must fail",
    "partial": "Partial fixes: must fail",
    "wrong": "Wrong fixes: must fail",
    "unsafe": "Unsafe fixes: must be called so",
    "adversary": "Generic adversaries: must fail",
}
STYLE = """
:root{--ink:#1c2430;--soft:#5d6878;--line:#d9dee6;--ground:#f5f7fa;--card:#fff;--good:#1a7f4b;--bad:#b3261e;
--pass:#e3f1e8;--fail:#d9534a;--unknown:#f2c14e;--skipped:#eceff4}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#98a4b5;--line:#343d4b;--ground:#12161c;--card:#1b212b;
--good:#56c98b;--bad:#ff8a80;--pass:#1d3a2b;--fail:#b3423a;--unknown:#8a6b1c;--skipped:#262e3a}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:24px;margin:0} h2{font-size:17px;margin:30px 0 8px}
p{margin:6px 0} .soft{color:var(--soft)}
.badge{border-radius:99px;padding:2px 12px;font-size:13px;font-weight:600;color:#fff;background:var(--bad)}
.badge.good{background:var(--good)} .scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);
border-radius:10px;padding:10px 16px 14px} table{border-collapse:collapse;font-size:13px}
th{font-weight:500;color:var(--soft);text-align:left;font-size:12px;padding:4px 8px;vertical-align:bottom}
th.check div{writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap;max-height:170px}
td{padding:3px 8px;border-top:1px solid var(--line);white-space:nowrap} td.why{white-space:normal;color:var(--soft)}
td.mark{text-align:center;min-width:26px;font-weight:700;border-left:2px solid var(--card)}
.pass{background:var(--pass)} .fail{background:var(--fail);color:#fff} .unknown{background:var(--unknown)}
.skipped{background:var(--skipped);color:var(--soft)} td.decided{outline:2px solid var(--ink);outline-offset:-2px}
tr.group td{border:0;padding-top:14px;font-weight:600} .ok{color:var(--good)} .red{color:var(--bad);font-weight:600}
code{font:12.5px ui-monospace,SFMono-Regular,Menlo,monospace} ul{padding-left:20px;margin:6px 0}
""".strip()


def write_heatmap(document: Mapping[str, Any], out: Path, *, title: str = "") -> Path:
    """Write it and return its path."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(document, title=title))
    return out


def render(document: Mapping[str, Any], *, title: str = "") -> str:
    """The page as text."""
    name = html.escape(str(document["problem"]))
    word = '<span class="badge good">sound</span>' if document["sound"] else '<span class="badge">not sound</span>'
    heading = f"{name}: {html.escape(title)}" if title else name
    machine = document["machine"]
    judged = document["judged"][:16]
    lead = f"{len(document['cells'])} cells in {document['seconds']:.0f} s, {machine.get('jobs', '?')} boxes at once"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{heading}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{heading} {word}</h1>",
        f'<p class="soft">{html.escape(document["audited"])}, {lead}; judged <code>{judged}</code></p>',
        f"<p>{html.escape(document['why'])}</p>" if document["why"] else "",
        *_table(document),
        '<p class="soft">· passed, ✗ failed, ? could not tell, – not asked; the framed check decided.</p>',
        *_findings(document),
        *_checks(document),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _table(document: Mapping[str, Any]) -> Iterator[str]:
    checks = [check["id"] for check in document["checks"]]
    heads = "".join(f'<th class="check"><div>{html.escape(check)}</div></th>' for check in checks)
    yield '<div class="scroll"><table><thead><tr><th>cell</th><th>verdict</th><th>s</th>'
    yield f"{heads}<th></th></tr></thead><tbody>"
    for kind, words in GROUPS.items():
        cells = [cell for cell in document["cells"] if cell["kind"] == kind]
        if cells:
            yield f'<tr class="group"><td colspan="{len(checks) + 4}">{html.escape(words)}</td></tr>'
        for cell in cells:
            yield _row(cell, checks)
    yield "</tbody></table></div>"


def _row(cell: Mapping[str, Any], checks: list[str]) -> str:
    tone = "soft" if cell["void"] else "ok" if cell["ok"] else "red"
    verdict = html.escape(cell["verdict"].replace("_", " "))
    row = [f"<td><code>{html.escape(cell['name'])}</code></td>", f'<td class="{tone}">{verdict}</td>']
    row.append(f'<td class="soft">{cell["seconds"]:.0f}</td>')
    for check in checks:
        kind, sign = SIGNS.get(cell["results"].get(check, ""), ("", ""))
        decided = " decided" if cell["check"] and cell["check"].split("/")[0] == check else ""
        said = html.escape(cell["said"].get(check, ""), quote=True)
        row.append(f'<td class="mark {kind}{decided}" title="{said}">{sign}</td>')
    why = cell["why"] or (f"hangs on {cell['hangs_on']} alone" if cell.get("hangs_on") else "")
    row.append(f'<td class="why">{html.escape(why)}</td>')
    return f"<tr>{''.join(row)}</tr>"


def _findings(document: Mapping[str, Any]) -> Iterator[str]:
    items = [
        f'<li><span class="{"red" if one["grave"] else "soft"}">{html.escape(one["code"])}</span> '
        f"{html.escape(one['what'])}</li>"
        for one in document["findings"]
    ]
    items += [
        f'<li><span class="red">leak</span> {html.escape(leak["kind"])} <code>{html.escape(leak["what"])}</code> in '
        f"<code>{html.escape(leak['where'])}</code>: {html.escape(leak['shown'])}</li>"
        for leak in document["leaks"]
    ]
    yield "<h2>What follows</h2>"
    yield f"<ul>{''.join(items)}</ul>" if items else '<p class="soft">Nothing to be said against it.</p>'


def _checks(document: Mapping[str, Any]) -> Iterator[str]:
    yield '<h2>What each check is for</h2><div class="scroll"><table><thead><tr><th>check</th><th>family</th>'
    yield "<th>fails in</th><th>alone holds</th></tr></thead><tbody>"
    for check in document["checks"]:
        alone = ", ".join(check["alone"]) or ("nothing: idle" if check["idle"] else "")
        yield f"<tr><td><code>{html.escape(check['id'])}</code></td><td>{html.escape(check['family'])}</td>"
        yield f'<td>{len(check["kills"])} cells</td><td class="why">{html.escape(alone)}</td></tr>'
    yield "</tbody></table></div>"
