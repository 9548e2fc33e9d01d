"""`dynftrace tour`: list the tours and labs, take one in the console, check, report, begin one."""

from __future__ import annotations

import getpass
import json as json_format
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ...core.errors import UsageError
from ..files.status_line import StatusLine
from ..saved import settings
from ..tours import course as courses
from ..tours.course import Course
from ..tours.new_lesson import write_new
from ..tours.progress import Progress, report
from ..tours.tour import Tour, shell_of
from ..tours.walk import Walk
from .console import need_a_terminal
from .exit_status import FAILED
from .options import completion_of, theme_option


@click.command(name="tour", short_help="Learn by doing: tours, labs, and your own lessons.")
@click.argument(
    "lesson",
    required=False,
    metavar="[NAME|PATH]",
    shell_complete=completion_of(courses.names),
)
@click.option("--check", is_flag=True, help="Run the commands of each step, and check it.")
@click.option("--step", type=click.IntRange(1), metavar="N", help="Begin with step N.")
@click.option("--new", metavar="NAME", help="Write NAME.md, a template for a lesson of your own.")
@click.option("--report", "as_report", is_flag=True, help="Print your progress as JSON.")
@click.option("--json", "json", is_flag=True, help="Print the list as a JSON list of objects.")
@theme_option
@click.pass_context
def tour_command(
    context: click.Context,
    lesson: str | None,
    check: bool,
    step: int | None,
    new: str | None,
    as_report: bool,
    json: bool,
    theme: str | None,
) -> None:
    """Tours and labs: each step explains something, asks you to do it, and checks that you did.

    Without a NAME, list the tours and labs and your progress. With the NAME of a tour or lab,
    or the PATH of a lesson or a folder of lessons, open the console on the lesson's machine, at
    the step you had reached. --check walks the lessons without the console.
    """
    if sum((check, new is not None, as_report)) > 1:
        raise click.UsageError("give only one of --check, --new and --report")
    if json and (lesson is not None or check or new is not None or as_report):
        raise click.UsageError("--json applies to the list: give no NAME and no other option")
    if new is not None:
        if lesson is not None or step is not None:
            raise click.UsageError("--new takes no other lesson, and no --step")
        print(f"wrote {write_new(new)}")
        return
    chosen = None if lesson is None else courses.find(lesson)
    if check:
        tours = [each for tour in _load(chosen) for each in tour.machines()]
        status = StatusLine("steps", sum(len(tour.steps) for tour in tours))
        failed = [each for each in tours if not _walked(each, status)]
        context.exit(FAILED if failed else 0)
    if as_report:
        print(report(_user(), _load(chosen), Progress()), end="")
        return
    if json:
        print(json_format.dumps(list(_objects()), indent=1, ensure_ascii=False))
        return
    if chosen is None:
        for line in _listing():
            print(line)
        return
    settings.check(context)
    progress = Progress()
    tours = _load(chosen)
    tour = next((each for each in tours if progress.of(each) < len(each.steps)), tours[0])
    if step is not None and step > len(tour.steps):
        raise UsageError(f"step {step} does not exist: {tour.name} has steps 1-{len(tour.steps)}")
    begin = progress.next(tour) if step is None else step - 1
    need_a_terminal("--check works without one", "a tour")
    from ..console.run import run_console

    walk = Walk(tour, begin)
    source = settings.origin(context, "theme")
    context.exit(
        run_console(walk.open, theme_name=theme, theme_from=source, walk=walk, progress=progress)
    )


def _user() -> str:
    """Return the name of the user, or their number if they have none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _load(course: Course | None) -> list[Tour]:
    """Load the lessons of `course`, or all tours and labs. Raises `UsageError`."""
    paths: Iterable[Path] = (
        (*courses.TOURS.paths, *courses.LABS.paths) if course is None else course.paths
    )
    return [courses.load_path(path) for path in paths]


def _listing() -> Iterator[str]:
    """Yield a heading for each course, and two lines for each lesson."""
    progress = Progress()
    width = max(map(len, courses.names()))
    for course in (courses.TOURS, courses.LABS):
        yield course.title
        for tour in _load(course):
            done = f"{progress.of(tour)}/{len(tour.steps)}"
            yield f"  {tour.name:<{width}}  {done}  {tour.title}"
            yield f"  {'':<{width}}       {tour.summary}"


def _objects() -> Iterator[dict[str, object]]:
    """Yield an object for each lesson."""
    progress = Progress()
    for course in (courses.TOURS, courses.LABS):
        for tour in _load(course):
            yield {
                "course": course.title,
                "name": tour.name,
                "title": tour.title,
                "summary": tour.summary,
                "steps": len(tour.steps),
                "done": progress.of(tour),
            }


def _walked(tour: Tour, status: StatusLine) -> bool:
    """Walk `tour` and print how each step went; return whether all steps passed."""
    passed = True
    for number, (title, reason) in enumerate(status.over(check_tour(tour)), 1):
        print(f"{'FAILED' if reason else 'ok':<6}  {tour.name} {number}  {title}")
        if reason:
            print(f"        {reason}")
            passed = False
    return passed


def check_tour(tour: Tour) -> Iterator[tuple[str, str]]:
    """Do each step by its own commands; yield its title, and its error or "".

    It is also an error if the checks hold before the step: they would prove nothing.
    Lessons that come with the program are done in an empty folder, since some write files.
    """
    with ExitStack() as stack:
        if tour.path is not None and courses.is_ours(tour.path):
            stack.enter_context(chdir(stack.enter_context(TemporaryDirectory())))
        yield from _done(tour)


def _done(tour: Tour) -> Iterator[tuple[str, str]]:
    session = tour.open()
    shell, walk = shell_of(session), Walk(tour)
    while True:
        step = walk.step
        if step.checks and walk.look(shell.execute):
            yield step.title, f"{step.where}: the checks hold before the step is done"
        else:
            failed = ""
            for command in step.commands:
                outcome = shell.execute(command)
                walk.did(outcome.effects)
                if outcome.status:
                    failed = f" ('{command}' failed: {outcome.error.strip()})"
            wrong = step.open_checks(walk.effects, shell.execute)
            yield (
                step.title,
                "".join(
                    f"{each.where}: this does not hold after the step: {each}{failed}"
                    for each in wrong[:1]
                ),
            )
        if not walk.go(1):
            return
