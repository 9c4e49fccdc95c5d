"""What users were served: figures worked out by hand."""

import itertools
import json
import math
from pathlib import Path

import pytest

from aftershock.base.errors import AftershockError
from aftershock.workload.served import (
    Request,
    RequestLog,
    due_numbers,
    longest_stall,
    per_second,
    percentile,
    share_within,
    summarise,
)


def request(n: int, latency: float | None, *, ok: bool = True, rate: float = 10.0, error: str = "") -> Request:
    due = 1000 + n / rate
    end = None if latency is None else due + latency
    return Request(n, due, due + 0.001, end, "browse", ok and end is not None, 200 if ok else 503, error)


def write(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


def line(n: int, latency: float = 0.01, ok: bool = True) -> dict[str, object]:
    due = 1000 + n / 10
    return {
        "n": n, "due": due, "start": due, "end": due + latency, "kind": "read", "ok": ok,
        "status": 200 if ok else 503, "error": "" if ok else "HTTP 503",
    }  # fmt: skip


HEAD = {"begin": 1000.0, "rate": 10.0, "clock": 0.0, "timeout": 10.0}


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (1000.0, 1001.0, range(10)),
        (1000.05, 1000.15, range(1, 2)),  # 0 was due at 1000.0, 1 at 1000.1, 2 at 1000.2
        (1000.1, 1000.2, range(1, 2)),  # the begin belongs to a window, the end does not
        (990.0, 1000.0, range(0)),
        (1001.0, 1000.0, range(10, 10)),
    ],
)
def test_due_numbers(since: float, until: float, expected: range) -> None:
    assert list(due_numbers(1000.0, 10.0, since, until)) == list(expected)


def test_no_request_falls_between_two_windows_or_into_both() -> None:
    rate, begin = 17.3, 1796045627.971505
    edges = [begin + k * 0.37 for k in range(200)]
    counted = [n for a, b in itertools.pairwise(edges) for n in due_numbers(begin, rate, a, b)]
    assert counted == list(range(len(counted)))
    assert len(counted) == math.ceil((edges[-1] - begin) * rate - 1e-6)


def test_percentile_is_a_value_that_occurred() -> None:
    values = [0.004] * 19 + [2.0]
    assert percentile(values, 0.5) == 0.004
    assert percentile(values, 0.95) == 0.004  # the 19th of 20
    assert percentile(values, 0.951) == 2.0
    assert percentile([], 0.5) is None


def test_what_has_no_answer_is_not_served() -> None:
    requests = [request(0, 0.1), request(1, None), request(2, 0.1, ok=False, error="HTTP 503"), request(3, 0.3)]
    window = summarise(requests, 1000.0, 1000.4)
    assert (window.expected, window.recorded, window.ok, window.pending) == (4, 3, 2, 1)
    assert window.success == 0.5
    assert share_within(requests, 0.2) == 0.25
    assert window.errors == {"": 1, "HTTP 503": 1}


def test_a_window_in_which_nothing_was_due_shows_nothing() -> None:
    window = summarise([], 1000.0, 1010.0)
    assert (window.success, window.p50, window.stall) == (0.0, None, 10.0)
    assert share_within([], 1.0) == 0.0


def test_latency_counts_from_the_time_it_was_due() -> None:
    late = Request(0, due=1000.0, start=1003.0, end=1003.5, kind="read", ok=True, status=200, error="")
    assert late.latency == 3.5
    window = summarise([late], 1000.0, 1001.0)
    assert (window.p50, window.lag_p95) == (3.5, 3.0)


def test_longest_stall_counts_the_edges_and_the_slow() -> None:
    good = [request(n, 0.1) for n in (*range(20), *range(60, 80))]  # due 1000.0-1001.9 and 1006.0-1007.9
    slow = [request(n, 6.0) for n in range(20, 60)]
    assert longest_stall([*good, *slow], 1000.0, 1008.0) == pytest.approx(4.1)
    assert longest_stall([*good, *slow], 1000.0, 1008.0, patience=7.0) == pytest.approx(0.1)
    assert longest_stall(good[:20], 1000.0, 1008.0) == pytest.approx(6.1)
    assert longest_stall([], 1000.0, 1008.0) == 8.0


def test_series_has_every_second() -> None:
    requests = [request(n, 0.2) for n in range(10)] + [request(n, None) for n in range(20, 25)]
    series = per_second(requests, 1000.0, 1003.0)
    assert [(second.at, second.due, second.ok) for second in series] == [(1000, 10, 10), (1001, 0, 0), (1002, 5, 0)]
    assert series[0].p50 == pytest.approx(0.2)
    assert (series[1].p50, series[2].p50) == (None, None)


def test_the_log_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    log = RequestLog(path)
    assert not log.started
    with pytest.raises(AftershockError, match="not started"):
        log.requests(0, 1)
    write(path, HEAD, line(0), line(2))
    assert log.rate == 10.0
    assert [r.end is None for r in log.requests(1000.0, 1000.3)] == [False, True, False]
    assert log.requests(1000.0, 1000.3)[1].due == 1000.1
    with path.open("a") as file:  # half a line is no line yet
        text = json.dumps(line(1, 4.0))
        file.write(text[:30])
        file.flush()
        assert log.window(1000.0, 1000.3).recorded == 2
        file.write(text[30:] + "\n")
    window = log.window(1000.0, 1000.3)
    assert window.recorded == 3
    assert window.p95 == pytest.approx(4.0)


def test_nothing_is_due_after_the_users_have_gone(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    write(path, HEAD, *(line(n) for n in range(20)), {"finished": 1002.0})
    window = RequestLog(path).window(1000.0, 1010.0)
    assert (window.expected, window.ok) == (20, 20)


def test_a_damaged_line_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    write(path, HEAD)
    with path.open("a") as file:
        file.write("{oops\n")
    with pytest.raises(AftershockError, match="damaged"):
        RequestLog(path).poll()
