"""Views of a running machine: what they may leave as it was."""

from __future__ import annotations

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.worker import FRAME_S, KEYS_S

from ..canned import StoppedClock


def test_views_that_follow_each_other_closely_decode_the_trace_once() -> None:
    clock = StoppedClock()
    driver = SessionDriver(Session.open(arches.load("x86_64")), clock)
    assert not driver.execute("echo function > current_tracer").error

    def trace(old_s: float) -> object:
        assert not driver.execute("run syscalls").error
        return driver.view(old_s=old_s).trace

    first = trace(FRAME_S)
    clock.sleep(FRAME_S * 0.9)
    assert trace(FRAME_S) is first
    clock.sleep(FRAME_S * 0.2)
    assert trace(KEYS_S) is first
    second = trace(FRAME_S)
    assert second is not first
    third = trace(0.0)
    assert third is not second
    assert not driver.execute("echo > trace").error
    assert trace(FRAME_S) is not third  # the buffer was cleared
