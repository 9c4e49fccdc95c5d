"""How many trials are let in at once, and when."""

import asyncio

import pytest

from aftershock.audit.admission import Admission, slots

GIB = 1 << 30


class Watch:
    """Trials that note how many ran beside them."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.now = self.most = 0
        self.starting = self.most_starting = 0
        self.order: list[str] = []

    async def trial(self, name: str, *, alone: bool = False) -> None:
        async with self.admission.enter(alone=alone) as ticket:
            self.now += 1
            self.starting += 1
            self.most = max(self.most, self.now)
            self.most_starting = max(self.most_starting, self.starting)
            if alone:
                assert self.now == 1
            await asyncio.sleep(0.01)
            self.starting -= 1
            ticket.started()
            await asyncio.sleep(0.03)
            if alone:
                assert self.now == 1
            self.now -= 1
            self.order.append(name)


async def test_as_many_as_there_are_slots_and_one_that_starts():
    watch = Watch(Admission(3, lambda: 64 * GIB))
    await asyncio.gather(*(watch.trial(str(n)) for n in range(9)))
    assert (watch.most, watch.most_starting, len(watch.order)) == (3, 1, 9)


async def test_one_that_needs_the_machine_for_itself_gets_it():
    watch = Watch(Admission(3, lambda: 64 * GIB))
    await asyncio.gather(
        *(watch.trial(str(n)) for n in range(4)), watch.trial("alone", alone=True), watch.trial("alone too", alone=True)
    )
    assert len(watch.order) == 6


async def test_memory_is_waited_for_while_something_runs_that_will_give_it_back():
    free = [1 * GIB]
    watch = Watch(Admission(4, lambda: free[0]))
    first, second = asyncio.create_task(watch.trial("a")), asyncio.create_task(watch.trial("b"))
    await first
    assert watch.most == 1, "the second was not let in beside the first"
    await second
    assert watch.order == ["a", "b"]


async def test_a_trial_that_breaks_gives_its_place_back():
    admission = Admission(1, lambda: 64 * GIB)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            async with admission.enter():
                raise RuntimeError
    async with asyncio.timeout(1), admission.enter():
        assert admission.running == 1
    assert admission.running == 0


def test_slots_go_by_cores_memory_and_what_runs_already():
    assert slots(2, 22 * GIB) == 4
    assert slots(64, 22 * GIB) == 10
    assert slots(2, 22 * GIB, others=3) == 1
    assert slots(1, GIB // 2) == 1
