"""What the README shows is what the program prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_call_site_it_shows(sh: Callable[[str], str]) -> None:
    shown = re.search(r"^```\n(schedule  ip .*?)^```", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert sh("site schedule").startswith(shown[1])


def test_its_links_and_pictures_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]
