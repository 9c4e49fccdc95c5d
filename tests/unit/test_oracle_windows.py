"""Windows over synthetic request logs. All figures are worked out by hand, at 10 requests a second."""

import math

import pytest

from aftershock.fault.watching import recent_share
from aftershock.oracle.windows import Criteria, measure, scan, stall
from aftershock.workload.served import Request

RATE = 10.0


def log(seconds: float, *, slow=(), failed=(), stuck=(), latency: float = 0.01, begin: float = 0.0) -> list[Request]:
    """Requests due each 0.1 s; indices in `slow` take 1 s, in `failed` end at once, in `stuck` have no answer."""
    requests = []
    for n in range(round(seconds * RATE)):
        due = begin + n / RATE
        end = None if n in stuck else due + (1.0 if n in slow else latency)
        requests.append(Request(n, due, due, end, "r", n not in failed and n not in stuck, 200, ""))
    return requests


CRITERIA = Criteria(hold=10, success=0.99, fast_share=0.95, fast_under=0.25, median_under=0.1, patience=5)


def look(requests: list[Request], *, now: float, limit: float = 20.0, criteria: Criteria = CRITERIA):
    return scan([r for r in requests if r.due < now], criteria, rate=RATE, since=0.0, limit=limit, now=now)


def test_a_clean_window_passes_once_it_is_whole():
    requests = log(12)
    assert look(requests, now=9.9).state == "open"
    done = look(requests, now=10.1)
    assert done.state == "passed"
    assert (done.window.since, done.window.until, done.window.due) == (0.0, 10.0, 100)
    assert done.window.served_share == 1.0
    assert done.window.p50 == pytest.approx(0.01)


def test_exactly_at_the_threshold_passes_and_one_more_does_not():
    # 100 requests: 1 may fail (99 %), 5 may be slow (95 %, the failed one among them).
    assert look(log(12, failed={3}), now=10.1).state == "passed"
    two = look(log(12, failed={3, 4}), now=10.1)
    assert two.state == "open"
    assert two.window.since > 0.3  # left for a window that begins after the first bad one
    assert look(log(12, slow={1, 2, 3, 4, 5}), now=10.05).state == "passed"
    assert look(log(12, slow={1, 2, 3, 4, 5, 6}), now=10.05).state == "open"


def test_latency_exactly_at_the_floor_is_fast():
    fast = Criteria(hold=10, fast_share=1.0, fast_under=0.25, median_under=0.25)
    assert look(log(12, latency=0.25), now=11, criteria=fast).state == "passed"


def test_an_empty_window_fails_by_count():
    done = scan([], CRITERIA, rate=RATE, since=0.0, limit=10.0, now=10.5)
    assert done.state == "failed"
    assert "count" in done.faults
    assert done.window.due == 0


def test_missing_requests_are_not_a_good_window():
    sparse = [r for r in log(12) if r.n % 2 == 0]  # half of what the rate makes due, all of it well
    done = look(sparse, now=12, limit=10.5)
    assert done.state == "failed"
    assert done.faults == ("count",)


def test_stuck_requests_fail_without_leaving_an_answer():
    # Everything from 5 s on is stuck. At 11 s those due before 6 s are out of patience: ten of them.
    requests = log(30, stuck=set(range(50, 300)))
    assert look(requests, now=5.5, limit=60.0).state == "open"
    done = look(requests, now=11.0, limit=15.0)
    assert done.state == "failed"
    assert done.faults[0] == "success"


def test_it_ends_early_when_no_good_window_can_come_any_more():
    # All fail at once. The limit is 20 s and a window 10 s long, so after 10 s of failures it is over.
    requests = log(30, failed=set(range(300)))
    assert look(requests, now=9.5).state == "open"
    early = look(requests, now=10.5)
    assert early.state == "failed"
    assert early.faults[0] == "success"


def test_it_recovers_within_the_limit():
    requests = log(30, failed=set(range(80)))  # bad until 8 s
    assert look(requests, now=17.0).state == "open"
    done = look(requests, now=18.5)
    assert done.state == "passed"
    # One failure is allowed, so the window begins right after the one before the last.
    assert done.window.since == pytest.approx(7.8, abs=0.01)


def test_a_slow_median_fails_although_all_are_fast_enough():
    done = look(log(30, latency=0.2), now=25.0)
    assert done.state == "failed"
    assert done.faults == ("median",)


def test_the_users_own_delay_is_told_apart():
    late = [Request(r.n, r.due, r.due + 0.2, r.due + 0.3, "r", True, 200, "") for r in log(25)]
    done = look(late, now=25.0)
    assert done.state == "failed"
    assert set(done.faults) == {"fast", "lag"} or set(done.faults) == {"fast", "median", "lag"}


def late(requests: list[Request], seconds: set[int], by: float = 0.2) -> list[Request]:
    """The same with the users' program late in some seconds, and with it every answer."""
    return [
        Request(r.n, r.due, r.due + by, r.end and r.end + by + 0.1, "r", r.ok, 200, "") if int(r.due) in seconds else r
        for r in requests
    ]


def test_slow_answers_in_seconds_that_are_not_quiet_are_forgiven():
    # Five seconds of ten in which the users' program was 200 ms late: half of all answers are slow, none of the rest.
    done = look(late(log(12), {0, 2, 4, 6, 8}), now=10.1)
    assert done.state == "passed"
    assert (done.window.quiet, done.window.fast_share, done.window.quiet_fast_share) == (0.5, 0.5, 1.0)
    # One more, and it cannot be told.
    requests = late(log(30), set(range(30)) - {1, 3, 5, 7, 11, 13, 15, 17, 21, 23, 25})
    done = look(requests, now=25.0)
    assert done.state == "failed"
    assert set(done.faults) == {"fast", "median", "lag"}


def test_slow_answers_in_quiet_seconds_count_whatever_the_others_are_like():
    # Slow in the quiet seconds 1, 3, 5: 30 of 100, and 30 of the 50 quiet ones' requests.
    slow = {n for s in (1, 3, 5, 11, 13, 15, 21, 23, 25) for n in range(s * 10, s * 10 + 10)}
    done = look(late(log(30, slow=slow), {s for s in range(30) if s % 2 == 0}), now=25.0)
    assert done.state == "failed"
    assert "fast" in done.faults
    assert "lag" not in done.faults


def test_failures_are_not_forgiven():
    done = look(late(log(30, failed=set(range(300))), set(range(30))), now=25.0)
    assert done.state == "failed"
    assert done.faults[0] == "success"


def test_an_answer_out_of_patience_is_not_served():
    requests = [Request(0, 0.0, 0.0, 5.0, "r", True, 200, ""), Request(1, 0.1, 0.1, 5.2, "r", True, 200, "")]
    window = measure(requests, 0.0, 1.0, patience=5.0, fast_under=0.25, now=10.0)
    assert window.served_share == 0.5
    assert window.p50 == 5.0


def test_the_longest_stall():
    # Served until 4.9 s, failing from 5.0 to 8.4 s, served again from 8.5 s: 4.9 -> 8.5.
    seen = stall(log(20, failed=set(range(50, 85))), 0.0, 20.0, patience=5.0, now=30.0)
    assert seen.gap == pytest.approx(3.6)
    assert (seen.bad, seen.bad_seconds, seen.due, seen.open) == (35, 4, 200, 0)


def test_a_stall_of_stuck_requests_grows_only_by_what_is_known():
    requests = [r for r in log(20, stuck=set(range(50, 200))) if r.due < 12.0]
    seen = stall(requests, 0.0, 20.0, patience=5.0, now=12.0)
    # Those due before 7.0 s are out of patience; the first open one is due at 7.0 s.
    assert seen.gap == pytest.approx(7.0 - 4.9)
    assert seen.bad == 20
    assert seen.open == 50


def test_nothing_due_is_one_long_stall():
    assert stall([], 0.0, 20.0, patience=5.0, now=30.0).gap == 20.0


class FakeUsers:
    def __init__(self, requests: list[Request], at: float):
        self._requests, self._at = requests, at
        self.rate = RATE

    def now(self):
        return self._at

    def check(self):
        pass

    def requests(self, since, until):
        return [r for r in self._requests if since <= r.due < until]

    def promises(self):
        return {}


def test_recent_share_counts_stuck_requests_once_out_of_patience():
    # At 20 s, patience 3 s: known until 17 s; window 12 to 17 s, of it stuck from 14.5 s on: half.
    users = FakeUsers(log(20, stuck=set(range(145, 200))), 20.0)
    assert recent_share(users, window=5.0, patience=3.0) == pytest.approx(0.5)


def test_recent_share_of_fast_failures_needs_no_patience():
    users = FakeUsers(log(20, failed=set(range(150, 200))), 20.0)
    assert recent_share(users, window=5.0, patience=3.0) == 0.0
    assert recent_share(FakeUsers([], 20.0), window=5.0, patience=3.0) is None


def test_latency_of_what_has_no_answer_is_infinite():
    assert log(1, stuck={0})[0].latency == math.inf
