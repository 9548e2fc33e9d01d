"""How ftrace writes text: the methods, and one change of text in slow motion."""

from __future__ import annotations

from ...session.race import Race
from ...views.call_site import find_sites
from ..command import Argument, Arguments, Changes, Command, Context, UsageMistake, expect, number
from ..outcome import Patched, ShowedPatchMethods, ShowedRace
from ..text.patching import patch_lines, timing_line
from ..text.race import race_lines

METHOD = "--method"


def patch(context: Context, arguments: Arguments) -> None:
    """Show the methods and the patch under way, choose a method, or continue the patch."""
    if not arguments:
        _show(context)
        return
    word = arguments[0].text
    match word:
        case "watch":
            _watch(context, arguments)
        case "next":
            expect(arguments, 1, 2)
            count = number(arguments[1].text, "N", 1) if len(arguments) > 1 else 1
            _next(context, count)
        case "finish":
            expect(arguments, 1, 1)
            patch = context.boot.ftrace.patcher.patch
            _next(context, 1 if patch is None else len(patch.phases) - patch.done)
        case _:
            expect(arguments, 1, 1)
            methods = context.session.port.facts.patch_methods
            if word not in methods:
                raise UsageMistake(f"unknown method '{word}' (choose from: {', '.join(methods)})")
            context.boot.ftrace.patcher.check_idle()
            context.boot.ftrace.patcher.method = word


def _show(context: Context) -> None:
    """Show the methods and, if there is one, the patch that is under way."""
    session, patcher = context.session, context.boot.ftrace.patcher
    methods = session.port.facts.patch_methods
    shown = (f"[{each}]" if each == patcher.method else each for each in methods)
    context.line(" ".join(shown))
    context.did(ShowedPatchMethods())
    view = session.patch_view()
    if view is not None:
        for line in patch_lines(view):
            context.line(line)
        return
    if patcher.last is not None:
        context.line(timing_line(patcher.last))
    if patcher.watching:
        at = "" if patcher.watched_ip is None else " that writes "
        place = (
            "" if patcher.watched_ip is None else context.boot.kallsyms.format(patcher.watched_ip)
        )
        context.line(f"the next change of text stops before its first phase{at}{place}")


def _watch(context: Context, arguments: Arguments) -> None:
    """Start or stop watching changes of text, or choose the site to show."""
    expect(arguments, 2, 3)
    patcher, word = context.boot.ftrace.patcher, arguments[1].text
    if word in ("on", "off") and len(arguments) == 2:
        patcher.watching = word == "on"
        patcher.watched_ip = None
        return
    name = " ".join(each.text for each in arguments[1:])
    ips = _sites(context, name)
    patcher.watching, patcher.watched_ip = True, ips[0]


def _next(context: Context, count: int) -> None:
    """Perform the next `count` phases, or those that remain."""
    session, boot = context.session, context.boot
    for _ in range(count):
        boot.ftrace.text.next_phase()
        if boot.ftrace.patcher.patch is None:
            break
    view = session.patch_view()
    context.did(Patched(0 if view is None else view.done + 1))
    if view is None:
        context.line("the patch is complete")
        return
    for line in patch_lines(view):
        context.line(line)


def race(context: Context, arguments: Arguments) -> None:
    """Bring a CPU to each position of a site, patch the site, and show what became of the CPU."""
    session, methods = context.session, context.session.port.facts.patch_methods
    words = [each.text for each in arguments]
    if words and words[0] == METHOD:
        expect(arguments, 3)
        if words[1] not in methods:
            raise UsageMistake(f"unknown method '{words[1]}' (choose from: {', '.join(methods)})")
        methods, words = (words[1],), words[2:]
    expect(arguments[len(arguments) - len(words) :], 1, 2)
    ips = _sites(context, words[0])
    workload = words[1] if len(words) > 1 else None
    if workload is not None:
        session.check_workload(workload)
    with session.lock:
        trial = Race(context.boot, ips[0], methods, session.history.progress)
        table = trial.run(workload)
    for line in race_lines(table):
        context.line(line)
    context.did(ShowedRace(words[0], table))


def _sites(context: Context, name: str) -> list[int]:
    """Return the sites that `name` means. Raises `UsageMistake` if there are none."""
    ips = find_sites(context.boot.ftrace.records, name, context.session.port.facts.abi.text_prefix)
    if not ips:
        raise UsageMistake(
            f"no call site in '{name}': give a function of available_filter_functions"
        )
    return ips


COMMANDS = (
    Command(
        "patch",
        "[METHOD|ACTION]",
        "choose how text is patched; watch a patch",
        patch,
        Argument.FUNCTION,
        "`none` writes byte by byte, or word by word, while the other CPUs keep running.\n"
        "watch on: the next change of text stops before its first phase. watch FUNC:\n"
        "before the first phase that writes the site of FUNC. watch off: stop nothing.\n"
        "  patch            the phase that comes next, the site's bytes, and each CPU\n"
        "  patch next [N]   do the next phase, or the next N\n"
        "  patch finish     do all phases that remain\n"
        "step, until, sleep and run work in between, so a CPU can be led into the site.\n"
        "A CPU led to an address by step or until executes fresh code there.\n"
        "Until the patch is done, no other change of text and no module is accepted.",
        changes=Changes.WITH_ARGUMENTS,
    ),
    Command(
        "race",
        "[OPTIONS] FUNC [WORKLOAD]",
        "patch a site under a CPU at each position",
        race,
        Argument.FUNCTION,
        "Stops a CPU at each instruction of the site of FUNC, and at the ones before and\n"
        "after. Then enables or disables the site by each method, and lets the machine\n"
        "run. The table shows what became of the CPU, and how to get there.\n"
        "WORKLOAD brings a CPU there; by default, the first one that does. At the end the\n"
        "machine is as it was before. --method METHOD: only this method.",
    ),
)
