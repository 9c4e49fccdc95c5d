"""What users saw, as one SVG: the share of requests served and the latency, second by second.

Drawn by hand: a plotting library is a hundred times the size of these few paths. Colours are CSS
variables, so that the picture follows the reader's light or dark setting, by itself and in a page.
"""

import html
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aftershock.base.errors import AftershockError
from aftershock.workload.served import RequestLog, Second

__all__ = ["STYLE", "TrialView", "draw", "read_view"]

WIDTH, LEFT, RIGHT = 1040, 62, 18
MARK_ROW, HIGH, GAP, LOW, AXIS = 17, 120, 26, 140, 40
LATENCIES = ((0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s"))
CHAR = 6.3  # width of a character of the labels, about

STYLE = """
.as{--ink:#1c2430;--soft:#5d6878;--line:#dfe4ea;--good:#2f8f6b;--bad:#d2493f;--p50:#2563a8;--p95:#8a5cc2;
--agent:#e2a11b;--judge:#7c8aa0;--plot:#fbfcfd;color-scheme:light dark}
@media (prefers-color-scheme:dark){.as{--ink:#e6eaf0;--soft:#98a3b3;--line:#2b333f;--good:#3fae85;--bad:#e5655b;
--p50:#64a5ea;--p95:#b493e6;--agent:#e9b44c;--judge:#8b98ad;--plot:#161b23}}
svg.as text{font:11px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--soft)}
svg.as .plot{fill:var(--plot);stroke:var(--line)} svg.as .grid{stroke:var(--line)}
svg.as .name{fill:var(--ink);font-weight:600} svg.as .good{fill:var(--good);fill-opacity:.72}
svg.as .bad{fill:var(--bad);fill-opacity:.72} svg.as .p50{fill:none;stroke:var(--p50);stroke-width:1.8}
svg.as .p95{fill:none;stroke:var(--p95);stroke-width:1.4}
svg.as .mark{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:3 3}
svg.as .marked{fill:var(--ink)} svg.as .agent{fill:var(--agent);fill-opacity:.26}
svg.as .agent-edge{stroke:var(--agent);stroke-width:1.6}
svg.as .agent-bar{fill:var(--agent)} svg.as .judge-bar{fill:var(--judge);fill-opacity:.55}
svg.as .judge{fill:var(--judge);fill-opacity:.14} svg.as .judge-edge{stroke:var(--judge);stroke-width:1.6}
svg.as .hover{fill:transparent} svg.as .hover:hover{fill:var(--ink);fill-opacity:.08}
""".strip()


@dataclass(frozen=True)
class TrialView:
    """A finished trial as it is drawn. `series` begins at `begin`, a moment on the users' clock."""

    document: dict[str, Any]
    begin: float
    series: Sequence[Second]

    @property
    def seconds(self) -> float:
        return float(len(self.series))

    def mark(self, name: str) -> float | None:
        """Seconds from the beginning to a mark, None where the trial did not come so far."""
        at = self.document["marks"].get(name)
        return None if at is None else float(at) - self.begin


def read_view(folder: Path) -> TrialView:
    """Read a trial's folder.

    Raises:
        AftershockError: there is no trial in it.
    """
    path = folder / "trial.json"
    if not path.is_file():
        raise AftershockError("there is no trial.json", where=str(folder), todo="give the folder of a trial's record")
    document = json.loads(path.read_text())
    marks = document["marks"]
    if "begin" not in marks:
        return TrialView(document, 0.0, ())
    requests = RequestLog(folder / "users" / "requests.jsonl")
    end = marks.get("end") or max(marks.values())
    return TrialView(document, marks["begin"], requests.series(marks["begin"], end) if requests.started else ())


@dataclass(frozen=True)
class _Plane:
    """Where things lie in the picture, in pixels."""

    seconds: float
    rows: int

    @property
    def top(self) -> float:
        return 14.0 + self.rows * MARK_ROW

    @property
    def low_top(self) -> float:
        return self.top + HIGH + GAP

    @property
    def bottom(self) -> float:
        return self.low_top + LOW

    @property
    def height(self) -> float:
        return self.bottom + AXIS

    def x(self, second: float) -> float:
        share = min(max(second / self.seconds, 0.0), 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 2)

    def share(self, value: float) -> float:
        return round(self.top + (1 - value) * HIGH, 2)

    def latency(self, seconds: float) -> float:
        """Logarithmic between 1 ms and 10 s; what is beyond lies on the edge.

        >>> _Plane(10, 0).latency(0.1) == round(_Plane(10, 0).bottom - LOW / 2, 2)
        True
        """
        place = (math.log10(min(max(seconds, 0.001), 10.0)) + 3) / 4
        return round(self.bottom - place * LOW, 2)


@dataclass(frozen=True)
class _Label:
    at: float
    text: str
    kind: str
    row: int
    left: float


def draw(view: TrialView, *, seconds: float = 0.0, style: bool = True) -> str:
    """The picture of a trial.

    Args:
        seconds: length of the time axis; the trial's own when it is longer. Trials side by side share one.
        style: with its own style sheet, to stand alone.
    """
    span = max(seconds, view.seconds, 10.0)
    labels, rows = _place(list(_moments(view)), span)
    plane = _Plane(span, rows)
    title = f"{view.document['problem']} answered by {view.document['agent']}: {view.document['verdict']}"
    parts = [
        f'<svg class="as" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {plane.height:g}" role="img"'
        f' aria-label="{html.escape(title, quote=True)}">',
        f"<style>{STYLE}</style>" if style else "",
        f"<title>{html.escape(title)}</title>",
        *_frames(plane),
        *_bands(view, plane),
        *_served(view, plane),
        *_latency(view, plane),
        *_marks(labels, plane),
        *_hovers(view, plane),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _moments(view: TrialView) -> Iterator[tuple[float, str, str]]:
    """Moments to be marked: second, text, kind."""
    names = {"fault": "fault", "trigger": "trigger", "suffering": "users suffer", "page": "page"}
    fault, trigger = view.mark("fault"), view.mark("trigger")
    for name, text in names.items():
        at = view.mark(name)
        if at is None or (name == "fault" and fault is not None and trigger is not None and trigger - fault < 0.5):
            continue
        yield at, text, "mark"
    for name, text, kind in (("agent", view.document["agent"], "agent"), ("judge", "judging", "judge")):
        begin, end = view.mark(f"{name}_begin"), view.mark(f"{name}_end")
        if begin is not None:
            length = "" if end is None else f" {end - begin:.0f} s"
            yield begin, text + length, kind


def _place(moments: list[tuple[float, str, str]], span: float) -> tuple[list[_Label], int]:
    """Put labels into rows so that none covers another, nor the line that falls from a later one."""
    labels: list[_Label] = []
    ends: list[float] = []
    for at, text, kind in sorted(moments, key=lambda moment: moment[0]):
        width = len(text) * CHAR + 12
        x = _Plane(span, 0).x(at)
        left = min(x, WIDTH - RIGHT - width)
        row = max((label.row + 1 for label, end in zip(labels, ends, strict=True) if end > left), default=0)
        labels.append(_Label(at, text, kind, row, left))
        ends.append(left + width)
    return labels, max((label.row + 1 for label in labels), default=0)


def _frames(plane: _Plane) -> Iterator[str]:
    width = WIDTH - LEFT - RIGHT
    yield f'<rect class="plot" x="{LEFT}" y="{plane.top}" width="{width}" height="{HIGH}"/>'
    yield f'<rect class="plot" x="{LEFT}" y="{plane.low_top}" width="{width}" height="{LOW}"/>'
    for value in (0.0, 0.5, 1.0):
        yield _rule(plane.share(value), f"{value:.0%}")
    for seconds, text in LATENCIES:
        yield _rule(plane.latency(seconds), text)
    y = plane.low_top - 9
    yield f'<text class="name" x="{LEFT}" y="{y}">latency</text>'
    yield f'<path class="p50" d="M{LEFT + 56} {y - 4}h16"/><text x="{LEFT + 76}" y="{y}">median</text>'
    yield f'<path class="p95" d="M{LEFT + 126} {y - 4}h16"/><text x="{LEFT + 146}" y="{y}">95th percentile</text>'
    step = next(s for s in (5, 10, 15, 30, 60, 120, 300, 600, 3600) if plane.seconds / s <= 14 or s == 3600)
    for second in range(0, int(plane.seconds) + 1, step):
        x = plane.x(second)
        yield f'<path class="grid" d="M{x} {plane.bottom}v4"/>'
        yield f'<text x="{x}" y="{plane.bottom + 17}" text-anchor="middle">{second}</text>'
    y = plane.bottom + 34
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{y}" text-anchor="middle">seconds since the users came</text>'
    middle = plane.top + HIGH / 2
    turned = f'transform="translate(14 {middle}) rotate(-90)" text-anchor="middle"'
    yield f'<text class="name" {turned}>requests served</text>'


def _rule(y: float, text: str) -> str:
    line = f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
    return f'{line}<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>'


def _bands(view: TrialView, plane: _Plane) -> Iterator[str]:
    for name, kind in (("agent", "agent"), ("judge", "judge")):
        begin, end = view.mark(f"{name}_begin"), view.mark(f"{name}_end")
        if begin is not None:
            x = plane.x(begin)
            width = max(plane.x(view.seconds if end is None else end) - x, 1.5)
            place = f'x="{x}" width="{width:.2f}"'
            yield f'<rect class="{kind}-bar" {place} y="{plane.top - 6}" height="5"/>'
            yield f'<rect class="{kind}" {place} y="{plane.low_top}" height="{LOW}"/>'


def _served(view: TrialView, plane: _Plane) -> Iterator[str]:
    """Two areas that fill the plot: served from below, not served from above."""
    if not view.series:
        return
    shares = [second.ok / second.due if second.due else None for second in view.series]
    for kind, edge in (("good", 0.0), ("bad", 1.0)):
        path = []
        for index, share in enumerate(shares):
            if share is not None and share != edge:
                left, right = plane.x(index), plane.x(index + 1)
                path.append(f"M{left} {plane.share(edge)}V{plane.share(share)}H{right}V{plane.share(edge)}Z")
        if path:
            yield f'<path class="{kind}" shape-rendering="crispEdges" d="{"".join(path)}"/>'


def _latency(view: TrialView, plane: _Plane) -> Iterator[str]:
    """A line for each percentile, broken where nobody was served."""
    for kind in ("p95", "p50"):
        path, pen = [], "M"
        for index, second in enumerate(view.series):
            value = second.p50 if kind == "p50" else second.p95
            if value is None:
                pen = "M"
                continue
            path.append(f"{pen}{plane.x(index + 0.5)} {plane.latency(value)}")
            pen = "L"
        if path:
            yield f'<path class="{kind}" stroke-linejoin="round" stroke-linecap="round" d="{"".join(path)}"/>'


def _marks(labels: Sequence[_Label], plane: _Plane) -> Iterator[str]:
    for label in labels:
        x, y = plane.x(label.at), 8 + label.row * MARK_ROW
        kind = "mark" if label.kind == "mark" else f"{label.kind}-edge"
        yield f'<path class="{kind}" d="M{x} {y + 2}V{plane.top + HIGH}M{x} {plane.low_top}V{plane.bottom}"/>'
        yield f'<text class="marked" x="{label.left + 4:.1f}" y="{y + 9}">{html.escape(label.text)}</text>'


def _hovers(view: TrialView, plane: _Plane) -> Iterator[str]:
    height = plane.bottom - plane.top
    for index, second in enumerate(view.series):
        x, width = plane.x(index), plane.x(index + 1) - plane.x(index)
        middle = "nobody served" if second.p50 is None else f"median {second.p50 * 1000:.0f} ms"
        high = "" if second.p95 is None else f", 95th percentile {second.p95 * 1000:.0f} ms"
        text = f"{index} s: {second.ok} of {second.due} requests served, {middle}{high}"
        place = f'x="{x}" y="{plane.top}" width="{width:.2f}" height="{height}"'
        yield f'<rect class="hover" {place}><title>{text}</title></rect>'
