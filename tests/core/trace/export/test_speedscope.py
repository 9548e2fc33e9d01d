"""The real speedscope opens what `export` writes; it also reads timelines and folded stacks."""

from __future__ import annotations

import base64
import html
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from dynftrace.core.trace.export.stacks import folded, speedscope
from dynftrace.core.trace.export.timeline import timeline
from dynftrace.core.trace.text.tracetext import TraceText

from ....support.chromium import PROGRAM as CHROMIUM
from .test_export import traced

SPEEDSCOPE = shutil.which("speedscope")

pytestmark = pytest.mark.skipif(
    not (SPEEDSCOPE and CHROMIUM), reason="speedscope (npm) or chromium is not installed"
)


@pytest.fixture(scope="module")
def graph() -> TraceText:
    """A trace of a workload."""
    return traced("echo function_graph > current_tracer; run syscalls")


def opened_in_it(name: str, content: str, folder: Path) -> str:
    """Return the text of speedscope's page after it has opened `content`."""
    assert SPEEDSCOPE and CHROMIUM
    page = Path(SPEEDSCOPE).resolve().parents[1] / "dist" / "release" / "index.html"
    script = folder / "profile.js"
    data = base64.b64encode(content.encode()).decode()
    script.write_text(f'speedscope.loadFileFromBase64("{name}", "{data}")')
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu"),
            *("--use-gl=swiftshader", "--enable-unsafe-swiftshader", "--window-size=1400,900"),
            *(f"--user-data-dir={folder / 'user'}", "--virtual-time-budget=20000", "--dump-dom"),
            f"{page.as_uri()}#localProfilePath={script}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    shown = html.unescape(
        re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<style.*?</style>", "", done.stdout))
    )
    return " ".join(shown.split())


def milliseconds(graph: TraceText, task: str) -> float:
    """Return the time of the calls of `task`, from its folded stacks."""
    lines = (line.rpartition(" ") for line in folded(graph))
    return sum(int(ns) for chain, _, ns in lines if chain.split(";")[0] == task) / 1e6


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("trace.speedscope.json", lambda text: speedscope(text, "trace.speedscope.json")),
        ("trace.json", timeline),
        ("trace.folded", folded),
    ],
)
def test_it_opens_each_format(
    graph: TraceText, tmp_path: Path, name: str, written: Callable[[TraceText], Iterable[str]]
) -> None:
    end = "\n" if name.endswith("folded") else ""
    shown = opened_in_it(name, "".join(piece + end for piece in written(graph)), tmp_path)
    assert name in shown and "Time Order" in shown
    if name.endswith(".json"):
        # Each task is a profile; its time is that of its stacks.
        found = re.search(r"(syscalls-\d+)(?: \(tid \d+\))? ([0-9.]+)ms", shown)
        assert found, shown
        assert float(found[2]) == pytest.approx(milliseconds(graph, found[1]), rel=0.02)
