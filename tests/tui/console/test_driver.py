"""Views of a running machine: what they may leave as it was."""

from __future__ import annotations

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.worker import FRAME_S

from ..canned import StoppedClock


def test_views_that_follow_each_other_closely_decode_the_trace_once() -> None:
    clock = StoppedClock()
    driver = SessionDriver(Session.open(arches.load("x86_64")), clock)
    assert not driver.execute("echo function > current_tracer").error

    def trace(*, hurry: bool) -> object:
        assert not driver.execute("run syscalls").error
        return driver.view(hurry=hurry).trace

    first = trace(hurry=True)
    clock.sleep(FRAME_S * 0.9)
    assert trace(hurry=True) is first
    clock.sleep(FRAME_S * 0.2)
    second = trace(hurry=True)
    assert second is not first
    assert trace(hurry=False) is not second
