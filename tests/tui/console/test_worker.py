"""The machine's thread: jobs in order, views, running, stopping."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from dynftrace.core.errors import GuestHang, ImageError
from dynftrace.tui.console.worker import (
    BUSY_S,
    CHUNK_NS,
    FRAME_S,
    GIVE_WAY_S,
    GLANCE_S,
    KEYS_S,
    LONG_TURN_S,
    TURN_S,
    Clock,
    Driver,
    Runner,
)
from dynftrace.tui.present.view import View

from ..canned import CannedDriver, StoppedClock


class Rig:
    """A runner in its own thread, and the number of times it woke the interface."""

    def __init__(self, driver: CannedDriver, clock: Clock | None = None) -> None:
        self.driver = driver
        self.woken = threading.Semaphore(0)
        self.runner = Runner(lambda: driver, self.woken.release, clock=clock)
        self.thread = threading.Thread(target=self.runner.loop)
        self.thread.start()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait at most ten seconds."""
        for _ in range(5000):
            if condition():
                return
            time.sleep(0.002)
        raise AssertionError("it did not come to that")

    def view(self) -> View:
        """Return the newest view once all jobs are done."""
        self.until(lambda: self.runner.idle)
        view = self.runner.take()
        assert view is not None
        return view


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(CannedDriver())
    yield rig
    rig.runner.close()
    rig.thread.join(10)
    assert not rig.thread.is_alive()


def test_an_open_session_has_a_view(rig: Rig) -> None:
    assert rig.woken.acquire(timeout=10)
    assert rig.runner.mode == "PAUSED"
    assert rig.runner.fresh
    assert rig.view().status.arch == "x86_64"
    assert not rig.runner.fresh and rig.runner.take() is None


def test_a_running_machine_yields_to_a_key() -> None:
    clock = StoppedClock()
    rig = Rig(CannedDriver(), clock)
    rig.until(lambda: rig.runner.opened)
    rig.runner.give_way()
    assert clock.slept == []
    rig.runner.run()
    rig.until(lambda: bool(clock.slept))
    rig.until(lambda: sum(clock.slept) >= GIVE_WAY_S - 1e-9)
    rig.runner.close()
    rig.thread.join(10)
    assert sum(clock.slept) == pytest.approx(GIVE_WAY_S)


def test_the_machine_runs_on_as_soon_as_the_key_is_drawn() -> None:
    class Drawing(StoppedClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            rig.runner.drawn()

    clock = Drawing()
    rig = Rig(CannedDriver(), clock)
    rig.until(lambda: rig.runner.opened)
    rig.runner.give_way()
    rig.runner.run()
    rig.until(lambda: bool(clock.slept))
    rig.runner.pause()
    rig.view()
    assert clock.slept == [pytest.approx(GLANCE_S)]
    rig.runner.close()
    rig.thread.join(10)


def test_a_frame_comes_later_after_a_job_has_made_one() -> None:
    """Else a frame would be under way when the next key comes."""

    class Counting(CannedDriver):
        runs: ClassVar[list[int]] = []
        frames: ClassVar[list[int]] = []

        def run(self, ns: int) -> None:
            super().run(ns)
            self.runs.append(ns)
            clock.seconds += FRAME_S / 3.5

        def view(self, *, old_s: float = 0.0) -> View:
            self.frames.append(len(self.runs))
            return super().view(old_s=old_s)

    clock = StoppedClock()
    rig = Rig(Counting(), clock)
    rig.until(lambda: rig.runner.opened)
    clock.seconds += FRAME_S  # the frame of a job comes after a long pause
    rig.runner.run()
    rig.until(lambda: len(Counting.frames) > 2)
    rig.runner.close()
    rig.thread.join(10)
    assert Counting.frames[:3] == [0, 0, 4]


def test_the_interface_has_the_interpreter_sooner_while_a_view_is_made() -> None:
    class Watching(CannedDriver):
        turns: ClassVar[set[float]] = set()

        def view(self, *, old_s: float = 0.0) -> View:
            self.turns.add(round(sys.getswitchinterval(), 4))
            return super().view(old_s=old_s)

    rig = Rig(Watching())
    try:
        turn = rig.runner.submit(lambda driver: sys.getswitchinterval()).result(10)
        rig.view()
    finally:
        rig.runner.close()
        rig.thread.join(10)
    assert Watching.turns == {TURN_S} and turn == LONG_TURN_S == sys.getswitchinterval()


def test_a_view_for_a_key_may_be_older_than_a_frame() -> None:
    class Noting(CannedDriver):
        ages: ClassVar[list[float]] = []

        def view(self, *, old_s: float = 0.0) -> View:
            self.ages.append(old_s)
            return super().view(old_s=old_s)

        def run(self, ns: int) -> None:
            super().run(ns)
            clock.seconds += FRAME_S

    clock = StoppedClock()
    rig = Rig(Noting(), clock)
    try:
        rig.until(lambda: rig.runner.opened)
        rig.runner.run()
        rig.until(lambda: FRAME_S in Noting.ages)
        rig.runner.pause()
        rig.view()
    finally:
        rig.runner.close()
        rig.thread.join(10)
    assert Noting.ages[0] == Noting.ages[-1] == 0.0 and Noting.ages[1] == KEYS_S


def test_a_long_job_is_shown_as_busy() -> None:
    clock, go_on = StoppedClock(), threading.Event()
    rig = Rig(CannedDriver(), clock)
    rig.until(lambda: rig.runner.opened)
    job = rig.runner.submit(lambda driver: go_on.wait(10))
    assert rig.runner.mode == "PAUSED"
    clock.seconds += 2 * BUSY_S
    assert rig.runner.mode == "BUSY"
    go_on.set()
    job.result(10)
    rig.until(lambda: rig.runner.idle)
    assert rig.runner.mode == "PAUSED"
    rig.runner.close()
    rig.thread.join(10)


def test_jobs_run_in_order_and_update_the_view(rig: Rig) -> None:
    first = rig.runner.submit(lambda driver: driver.execute("echo function > current_tracer"))
    second = rig.runner.submit(lambda driver: driver.execute("echo schedule > set_ftrace_filter"))
    assert second.result(10).status == 0
    assert first.done()
    assert rig.driver.executed == [
        "echo function > current_tracer",
        "echo schedule > set_ftrace_filter",
    ]
    view = rig.view()
    assert view.status.tracer == "function"
    assert view.functions is not None and view.functions.traced() == 1


def test_an_error_in_a_job_stays_in_its_future(rig: Rig) -> None:
    future = rig.runner.submit(lambda driver: 1 // 0)
    assert isinstance(future.exception(10), ZeroDivisionError)
    assert rig.runner.submit(lambda driver: driver.now()).result(10) == rig.driver.ticks


def test_the_machine_runs_in_whole_chunks_until_paused(rig: Rig) -> None:
    start = rig.driver.ticks
    rig.runner.run()
    rig.until(lambda: rig.driver.ticks >= start + 3 * CHUNK_NS)
    assert rig.runner.mode == "RUNNING"
    rig.runner.pause()
    view = rig.view()
    assert view.status.now == rig.driver.ticks
    assert (rig.driver.ticks - start) % CHUNK_NS == 0
    assert rig.runner.mode == "PAUSED"


def test_jobs_run_between_chunks(rig: Rig) -> None:
    rig.runner.run()
    assert rig.runner.submit(lambda driver: driver.execute("cat trace")).result(10).status == 0
    assert rig.runner.running


def test_an_interrupt_ends_the_chunk_and_stops_the_job(rig: Rig) -> None:
    rig.until(lambda: rig.runner.opened)  # before that nothing can be stopped
    before = rig.driver.now()
    rig.runner.run()
    rig.until(lambda: rig.driver.now() > before)
    rig.runner.interrupt()
    rig.until(lambda: rig.runner.idle)
    assert rig.driver.stopped == 0 and not rig.runner.running
    begun, go_on = threading.Event(), threading.Event()

    def long(driver: Driver) -> None:
        begun.set()
        go_on.wait(10)

    job = rig.runner.submit(long)
    assert begun.wait(10)
    rig.runner.interrupt()
    assert rig.driver.stopped == 1
    go_on.set()
    job.result(10)


def test_a_machine_that_cannot_continue_is_paused_with_a_reason() -> None:
    class Stuck(CannedDriver):
        def run(self, ns: int) -> None:
            raise GuestHang("boot", ns)

    rig = Rig(Stuck())
    rig.runner.run()
    rig.until(lambda: rig.runner.failure is not None)
    assert rig.runner.failure == "boot did not finish within 0.001 s of virtual time"
    assert rig.runner.mode == "PAUSED"
    rig.runner.close()
    rig.thread.join(10)


def test_a_session_that_cannot_be_opened_ends_the_thread() -> None:
    def start() -> CannedDriver:
        raise ImageError("vmlinux", "not an ELF file")

    runner = Runner(start, lambda: None)
    runner.loop()
    assert runner.failure == "vmlinux: not an ELF file"
    assert not runner.opened
    assert runner.mode == "FAILED"
