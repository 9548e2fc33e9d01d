"""Tours as files: parsing, errors, and when a check passes."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import get_args

import pytest

from dynftrace.core.errors import UsageError
from dynftrace.core.shell.outcome import Effect, Outcome, ShowedSite, Stepped
from dynftrace.tui.tours import tour as tours
from dynftrace.tui.tours.tour import DEEDS, Deed, Shows, parse

HEAD = '+++\nsummary = "short"\nkernel = "ppc64"\nmodules = ["usbcore"]\n+++\n# Title\n'

STEP = """
## First

Some *text*.

```do
site schedule
tramp
```
```check
saw site schedule
cat trace =/> schedule
```
```hint
try
this
```

    kept as it is

## Second
to read
"""


def test_a_tour_has_a_machine_and_steps() -> None:
    tour = parse(HEAD + STEP, "name", "file.md")
    assert (tour.title, tour.summary, tour.kernel) == ("Title", "short", "ppc64")
    assert (tour.modules, tour.cpus, tour.patch) == (("usbcore",), 2, None)
    first, second = tour.steps
    assert (first.title, first.hint) == ("First", "try this")
    assert first.text == "Some *text*.\n\n\n    kept as it is"
    assert first.commands == ("site schedule", "tramp")
    saw, shows = first.checks
    assert saw == Deed(ShowedSite, "function", "schedule")
    assert isinstance(shows, Shows)
    assert (shows.command, shows.pattern.pattern, shows.wanted) == ("cat trace", "schedule", False)
    assert (second.title, second.text, second.checks) == ("Second", "to read", ())
    assert tour.open().boot.modules.find("usbcore") is not None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("# Title\n## Step\n", "f:1: a tour must begin with a table"),
        ("+++\nsummary = 3\n+++\n# T\n## S\n", "summary is not a setting of a tour, or has"),
        ("+++\nother = 3\n+++\n# T\n## S\n", "other is not a setting"),
        ("+++\nsummary =\n+++\n# T\n## S\n", "f: Invalid value"),
        ("+++\nkernel = 'mips'\n+++\n# T\n## S\n", "the table has no summary"),
        (HEAD, "f: a tour needs a title and at least one step"),
        (HEAD + "```do\nx\n```\n## S\n", "f:7: this block is before the first step"),
        (HEAD + "## S\n```do\nx\n```\n```do\ny\n```\n", "f:11: this step already has a do block"),
        (HEAD + "## S\n```check\nnonsense\n```\n", "f:8: 'nonsense' is not a check"),
        (HEAD + "## S\n```check\nran ^site\n```\n", "f:8: 'ran \\^site' is not a check"),
        (HEAD + "## S\n```check\nsaw nothing\n```\n", "f:8: unknown check 'saw nothing' \\(choose"),
        (HEAD + "## S\n```check\ndid step 3\n```\n", "f:8: 'did step' takes no name, but has '3'"),
        (HEAD + "## S\n```check\ncat x => (\n```\n", "f:8: 'cat x => \\(': missing"),
        (
            HEAD + "## S\n```check\necho > x => y\n```\n",
            "f:8: a check must not change anything: 'echo > x'",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(source: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(source, "name", "f")


def test_a_check_tests_each_line_of_the_output() -> None:
    said = {"cat a": Outcome("one\ntwo\n"), "cat b": Outcome("", "cat: b: gone\n", 1)}
    for command, pattern, holds in (
        ("cat a", "^two$", True),
        ("cat a", "^wo", False),
        ("cat b", "gone", True),
    ):
        check = Shows(command, re.compile(pattern))
        assert check.holds((), said.__getitem__) == holds
        assert Shows(command, check.pattern, False).holds((), said.__getitem__) != holds


def test_an_action_is_checked_by_its_effect() -> None:
    def holds(deed: str, name: str, *effects: Effect) -> bool:
        return Deed(*DEEDS[deed], name).holds(effects, lambda command: Outcome())

    shown = ShowedSite(64, "schedule")
    assert holds("saw site", "schedule", Stepped(0), shown)
    assert holds("saw site", "", shown)
    assert not holds("saw site", "vfs_read", shown)
    assert not holds("saw bits", "schedule", shown)
    assert not holds("did step", "")


def test_every_effect_has_a_check() -> None:
    assert {effect for effect, _ in DEEDS.values()} == set(get_args(Effect))
    for effect, attribute in DEEDS.values():
        assert not attribute or attribute in {field.name for field in fields(effect)}


def test_an_unknown_tour_is_refused_with_the_choices() -> None:
    for name in ("nothing", "../tours/01-call-site", "01-call-site"):
        with pytest.raises(UsageError, match="choose from: call-site"):
            tours.load(name)
