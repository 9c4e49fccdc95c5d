"""Telemetry moved in time: moments in every dialect, series, and bodies."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from aftershock.stack.history import moved_series
from aftershock.stack.stamps import lift, lower

END = datetime(2024, 12, 31, 23, 50, 0, tzinfo=UTC).timestamp()
LATER = datetime(2025, 1, 1, 8, 20, 30, tzinfo=UTC).timestamp()  # 8 h 30 min 30 s later, over the year's end
LINES = {
    '{"ts":"2024-12-31T23:45:00.123Z"}': '{"ts":"2025-01-01T08:15:30.123Z"}',
    '"_time":"2024-12-31T23:45:00.123456789Z"': '"_time":"2025-01-01T08:15:30.123456789Z"',
    "2024-12-31 23:45:00.120 UTC [71] LOG:  checkpoint": "2025-01-01 08:15:30.120 UTC [71] LOG:  checkpoint",
    "2024/12/31 23:45:00 [warn] 7#7: upstream": "2025/01/01 08:15:30 [warn] 7#7: upstream",
    '10.0.0.1 [31/Dec/2024:23:45:00 +0000] "GET /"': '10.0.0.1 [01/Jan/2025:08:15:30 +0000] "GET /"',
    "E1231 23:45:00.000123       1 main.go:1] x": "E0101 08:15:30.000123       1 main.go:1] x",
    '{"at":1735688700.25}': '{"at":1735719330.25}',
    "since 1735688700 s": "since 1735719330 s",
    '"startTimeUnixNano":"1735688700000000007"': '"startTimeUnixNano":"1735719330000000007"',
    "31 things, 2024-12-31T23:45:00+00:00": "31 things, 2025-01-01T08:15:30+00:00",
}


@pytest.mark.parametrize("line", LINES)
def test_a_moment_moves_in_its_own_dialect(line: str) -> None:
    lifted = lift(line.encode(), END, 900)
    assert lower(lifted, LATER).decode() == LINES[line]
    assert lower(lifted, END).decode() == line


@pytest.mark.parametrize("line", LINES)
def test_nothing_tells_when_it_was_recorded(line: str) -> None:
    """What is kept is the same, whenever the same was recorded."""
    earlier = lower(lift(line.encode(), END, 900), LATER)
    assert lift(earlier, LATER, 900) == lift(line.encode(), END, 900)


@pytest.mark.parametrize(
    "text",
    [
        "an order of 2024-10-02T08:00:00Z",
        "expires 2025-03-01 00:00:00",
        "id 1735688700123 and 4111111111111111",
        "version 1.2024-12-31",
        "call +49 1735000000",
        "99/Dec/2024:23:45:00 2024-13-41T23:45:00Z",
    ],
)
def test_what_is_no_moment_of_the_recording_stays(text: str) -> None:
    assert lower(lift(text.encode(), END, 900), LATER).decode() == text


def test_a_line_stays_valid_json_and_order_is_kept() -> None:
    start = datetime.fromtimestamp(END - 600, UTC)
    rows = [
        {"_time": f"{start + timedelta(milliseconds=350 * n):%Y-%m-%dT%H:%M:%S.%f}Z", "_msg": f'é "n" {n}'}
        for n in range(1700)
    ]
    data = b"\n".join(lift(json.dumps(row).encode(), END, 900) for row in rows)
    moved = [json.loads(line) for line in lower(data, LATER).splitlines()]
    assert [row["_msg"] for row in moved] == [row["_msg"] for row in rows]
    gap = datetime.fromisoformat(moved[-1]["_time"]) - datetime.fromisoformat(moved[0]["_time"])
    assert gap == timedelta(milliseconds=350 * 1699)
    assert [row["_time"] for row in moved] == sorted(row["_time"] for row in moved)


def series(name: str, values: list[float | None]) -> dict[str, object]:
    stamps = [int(END * 1000) - 10_000 * n for n in range(len(values))]
    return {"metric": {"__name__": name, "pod": "p"}, "values": values, "timestamps": stamps}


def test_a_series_moves_and_its_values_stay() -> None:
    before = series("http_requests_total", [5, 7.25, None, 1e300])
    line = json.dumps(before, separators=(",", ":")).encode()
    away = moved_series(line, -round(END * 1000))
    assert json.loads(away)["timestamps"] == [0, -10000, -20000, -30000]
    after = json.loads(moved_series(away, round(LATER * 1000)))
    assert after["values"] == before["values"]
    assert after["timestamps"][0] == LATER * 1000


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("process_start_time_seconds", True),
        ("container_start_time_seconds", True),
        ("ALERTS_FOR_STATE", True),
        ("kube_pod_start_time_seconds", False),
        ("certificate_expiry_timestamp_seconds", False),
        ("http_request_duration_seconds_sum", False),
        ("process_cpu_seconds_total", False),
    ],
)
def test_values_that_are_moments_of_what_runs_move_too(name: str, moves: bool) -> None:
    line = json.dumps(series(name, [END - 50.5, None]), separators=(",", ":")).encode()
    moved = json.loads(moved_series(moved_series(line, -round(END * 1000)), round(LATER * 1000)))
    assert moved["values"] == [pytest.approx(LATER - 50.5 if moves else END - 50.5), None]
