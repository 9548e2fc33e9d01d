"""Lessons as files: parsing, errors with line and column, and when a check passes."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import get_args

import pytest

from dynftrace.core.errors import UsageError
from dynftrace.core.shell.outcome import Effect, Outcome, ShowedSite, Stepped
from dynftrace.tui.tours import course
from dynftrace.tui.tours.lesson_file import parse
from dynftrace.tui.tours.tour import DEEDS, Deed, Shows, Step

HEAD = '+++\nsummary = "short"\nkernel = "ppc64"\nmodules = ["usbcore"]\n+++\n# Title\n'

STEP = """
## First

Some *text*.

    kept as it is

Do it.

```pane
3
```
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

```hint
the other
```

## Second
to read
"""


def test_a_tour_has_a_machine_and_steps() -> None:
    tour = parse(HEAD + STEP, "name", "file.md")
    assert (tour.title, tour.summary, tour.kernel) == ("Title", "short", "ppc64")
    assert (tour.modules, tour.cpus, tour.patch) == (("usbcore",), 2, None)
    first, second = tour.steps
    assert (first.title, first.hints) == ("First", ("try this", "the other"))
    assert first.text == "Some *text*.\n\n    kept as it is"
    assert (first.task, first.pane, second.task) == ("Do it.", 3, "")
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
        ("# Title\n## Step\n", "f:1:1: a lesson must begin with a table between two lines +++"),
        ("", "f:1:1: a lesson must begin"),
        ("+++\nsummary = 3\n+++\n# T\n## S\n", "f:2:1: 'summary' must be a text"),
        ("+++\nsummary = 's'\ncpus = 9\n+++\n# T\n## S\n", "f:3:8: 'cpus' must be 1 to 8"),
        ("+++\nsummary = 's'\nmodules = [1]\n+++\n", "f:3:1: 'modules' must be a list of texts"),
        ("+++\nother = 3\n+++\n# T\n## S\n", "f:2:1: unknown setting 'other' (choose"),
        ("+++\nsummary =\n+++\n# T\n## S\n", "f:2:10: Invalid value"),
        ("+++\nkernel = 'mips'\n+++\n# T\n## S\n", "f:1:1: the table has no summary"),
        ("+++\nsummary = 's'\nkernel = 'vax'\n+++\n", "f:3:11: unknown kernel 'vax' (choose"),
        (HEAD, "f:6:1: a lesson needs a title and a step"),
        (HEAD + "# Again\n## S\n", "f:7:1: a lesson has only one title"),
        (HEAD + "## S\n## S\n", "f:8:4: another step is called 'S' too"),
        (HEAD + "```do\nx\n```\n## S\n", "f:7:1: this block is before the first step"),
        (HEAD + "## S\n```setup\nx\n```\n", "f:8:1: the setup block comes once, before the"),
        (HEAD + "## S\n```do\nx\n```\n```do\ny\n```\n", "f:11:1: this step already has a do block"),
        (HEAD + "## S\n```do\n```\n", "f:8:1: this do block is empty"),
        (HEAD + "## S\n```chekc\nx\n```\n", "f:8:4: unknown block 'chekc': is it 'check'?"),
        (HEAD + "## S\n```pane\n7\n```\n", "f:9:1: unknown pane '7'"),
        (HEAD + "## S\n```pane\n7\n8\n```\n", "f:9:1: unknown pane '7…'"),
        (HEAD + "## S\n```check\nsaw path\n```\n", "f:7:1: a step with a check needs a last"),
        (HEAD + "## S\n```check\nnonsense\n```\n", "f:9:1: 'nonsense' is not a check"),
        (HEAD + "## S\n```check\n ran ^site\n```\n", "f:9:2: 'ran ^site' is not a check"),
        (HEAD + "## S\n```check\nsaw nothing\n```\n", "f:9:1: unknown check 'saw nothing' (choose"),
        (
            HEAD + "## S\n```check\ndid step 3\n```\n",
            "f:9:9: 'did step' takes no name",
        ),
        (
            HEAD + "## S\n```check\ncat x => a(\n```\n",
            "f:9:11: the pattern 'a(' is invalid",
        ),
        (HEAD + "## S\n```check\necho > x => y\n```\n", "f:9:6: a check must not change anything"),
        (HEAD + "## S\n```check\nport check x.py => y\n```\n", "f:9:1: a check must not execute"),
        (HEAD + "## S\n```check\ncta x => y\n```\n", "f:9:1: unknown command 'cta'"),
        (HEAD + "## S\n```do\nsite x\n insomd x\n```\n", "f:10:2: unknown command 'insomd'"),
    ],
)
def test_an_invalid_file_is_refused_with_line_and_column(source: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(source, "name", "f", commands={"cat", "site", "echo"})
    assert str(caught.value).startswith(reason)


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


def test_a_step_names_the_sites_to_see_by_its_checks() -> None:
    """Only by its checks: a command that mentions a site need not show it."""
    site, bits = (Deed(*DEEDS[f"saw {what}"], "schedule") for what in ("site", "bits"))
    step = Step("S", "", commands=("echo '; site vfs_read'", "site vfs_open"), checks=(bits, site))
    assert step.sites == ("schedule",)
    assert Step("S", "", checks=(Deed(*DEEDS["saw site"], ""),)).sites == ()


def test_every_effect_has_a_check() -> None:
    assert {effect for effect, _ in DEEDS.values()} == set(get_args(Effect))
    for effect, attribute in DEEDS.values():
        assert not attribute or attribute in {field.name for field in fields(effect)}


def test_an_unknown_tour_is_refused_with_the_choices() -> None:
    for name in ("nothing", "../tours/01-call-site", "01-call-site"):
        with pytest.raises(UsageError, match="choose from: call-site"):
            course.load(name)
