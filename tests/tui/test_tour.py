"""Tours as files: what is read of them, what is refused, and when a check holds."""

from __future__ import annotations

import re

import pytest

from dynftrace.core.errors import UsageError
from dynftrace.core.shell.outcome import Outcome
from dynftrace.tui import tour as tours
from dynftrace.tui.tour import Check, parse

HEAD = '+++\nsummary = "short"\nkernel = "ppc64"\nmodules = ["usbcore"]\n+++\n# Title\n'

STEP = """
## First

Some *text*.

```do
site schedule
tramp
```
```check
ran ^site
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
    assert [(c.command, c.pattern.pattern, c.wanted) for c in first.checks] == [
        ("", "^site", True),
        ("cat trace", "schedule", False),
    ]
    assert (second.title, second.text, second.checks) == ("Second", "to read", ())
    assert tour.open().boot.modules.find("usbcore") is not None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("# Title\n## Step\n", "f:1: a tour begins with a table"),
        ("+++\nsummary = 3\n+++\n# T\n## S\n", "summary is no setting of a tour, or not"),
        ("+++\nother = 3\n+++\n# T\n## S\n", "other is no setting"),
        ("+++\nsummary =\n+++\n# T\n## S\n", "f: Invalid value"),
        ("+++\nkernel = 'mips'\n+++\n# T\n## S\n", "a tour has a summary"),
        (HEAD, "f: a tour has a title and steps"),
        (HEAD + "```do\nx\n```\n## S\n", "f:7: a block outside of any step"),
        (HEAD + "## S\n```do\nx\n```\n```do\ny\n```\n", "f:11: a second do in one step"),
        (HEAD + "## S\n```check\nnonsense\n```\n", "f:8: 'nonsense' is no check"),
        (HEAD + "## S\n```check\ncat x => (\n```\n", "f:8: 'cat x => \\(': missing"),
        (HEAD + "## S\n```check\necho > x => y\n```\n", "f:8: a check changes nothing: 'echo > x'"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_line(source: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(source, "name", "f")


def test_a_check_looks_at_each_line_of_what_is_said() -> None:
    said = {"cat a": Outcome("one\ntwo\n"), "cat b": Outcome("", "cat: b: gone\n", 1)}
    for command, pattern, holds in (
        ("cat a", "^two$", True),
        ("cat a", "^wo", False),
        ("cat b", "gone", True),
    ):
        check = Check(command, re.compile(pattern))
        assert check.holds((), said.__getitem__) == holds
        assert Check(command, check.pattern, False).holds((), said.__getitem__) != holds
    ran = Check("", re.compile("^site (a|b)$"))
    assert ran.holds(("tramp", "site b"), said.__getitem__)
    assert not ran.holds(("site c",), said.__getitem__)


def test_there_is_no_tour_of_that_name() -> None:
    for name in ("nothing", "../tours/01-call-site", "01-call-site"):
        with pytest.raises(UsageError, match="there is: call-site"):
            tours.load(name)
