"""The files below /proc."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session

WATCHDOG = "/proc/sys/kernel/nmi_watchdog"


def test_the_watchdog_sends_an_nmi_to_each_cpu_every_ten_seconds(
    session: Session, sh: Callable[[str], str]
) -> None:
    assert sh(f"cat {WATCHDOG}") == "0\n"
    start = [vcpu.ticks / 1e9 for vcpu in session.boot.machine.vcpus]
    shown = sh(f"echo 1 > {WATCHDOG}; cat {WATCHDOG}; nmi")
    times = [float(text) for text in re.findall(r"next at ([\d.]+)", shown)]
    assert shown.startswith("1\n")
    assert times == pytest.approx([10 + each for each in start], abs=1e-5)
    sh("nmi 0 every 50000; nmi 1 off")
    assert sh(f"cat {WATCHDOG}; echo 0 > {WATCHDOG}; nmi").count("every") == 1
    for text in ("2", "-1", "on"):
        with pytest.raises(TracefsError) as caught:
            session.boot.tracefs.write(WATCHDOG, text)
        assert caught.value.errno == errno.EINVAL
