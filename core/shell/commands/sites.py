"""Call sites, the records of them, and the way a call takes: site, records, tramp."""

from __future__ import annotations

import numpy as np

from ...views.callsite import find_sites
from ...views.stubs import module_stubs
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect
from ..text.call_site import path_lines, site_lines, stub_lines
from ..text.encoding import encoding_lines
from ..text.origin import entry_lines, listing_lines


def site(context: Context, arguments: Arguments) -> None:
    """Show the call sites of functions: as they came, as ftrace expects them, as they are."""
    expect(arguments, 1)
    session = context.session
    prefix = session.port.facts.abi.text_prefix
    shown = 0
    for word in arguments:
        ips = find_sites(session.ftrace.records, word.text, prefix)
        ips += session.unfound_sites(word.text)
        if not ips:
            context.fail(f"site: {word.text}: no function of that name has a call site")
        for ip in ips:
            if shown:
                context.line()
            shown += 1
            for line in site_lines(session.call_site(ip)):
                context.line(line)


def tramp(context: Context, arguments: Arguments) -> None:
    """Show the ways of calls through ftrace_caller and its copies, or a module's trampolines."""
    expect(arguments, 0, 2)
    session = context.session
    if not arguments:
        callers = session.ftrace.entry.callers
        ways = [session.paths.mcount_hops(), *map(session.paths.entry_hops, callers)]
        trampolines = session.ftrace.trampolines
        if trampolines is not None:
            ways += map(session.paths.trampoline_hops, trampolines.of(session.ftrace.ops))
        for hops in filter(None, ways):
            if context.output:
                context.line()
            for line in path_lines(hops):
                context.line(line)
        return
    module = session.modules.find(arguments[0].text)
    if module is None:
        raise UsageMistake(f"no module '{arguments[0].text}' is loaded")
    stubs = module_stubs(session.ftrace, session.paths, module.name, module.trampolines)
    if not stubs:
        context.line(f"{module.name} reaches ftrace_caller without trampolines")
        return
    if len(arguments) > 1:
        wanted = {arguments[1].text, session.port.facts.abi.text_prefix + arguments[1].text}
        stubs = tuple(stub for stub in stubs if stub.symbol in wanted)
        if not stubs:
            context.fail(f"tramp: {module.name} has no trampoline of {arguments[1].text}")
    for line in stub_lines(stubs):
        context.line(line)


def records(context: Context, arguments: Arguments) -> None:
    """Show the compiler's lists of call sites, and which record each entry became."""
    session = context.session
    prefix = session.port.facts.abi.text_prefix
    known, rows = session.ftrace.records, None
    if arguments:
        rows = []
        for word in arguments:
            found = find_sites(known, word.text, prefix)
            if not found:
                context.fail(f"records: {word.text}: no function of that name has a record")
            rows += known.rows_of(np.array(found, np.uint64)).tolist()
        if not rows:
            return
    shown = 0
    for each in session.listings(rows):
        if rows is not None and not each.entries:
            continue
        if shown:
            context.line()
        shown += 1
        for line in (listing_lines if rows is None else entry_lines)(each, known):
            context.line(line)
    if not shown:
        context.line("no file that is loaded has a list of call sites")


def bits(context: Context, arguments: Arguments) -> None:
    """Draw the bit fields of the instructions of call sites, or of one at an address."""
    expect(arguments, 1)
    session = context.session
    prefix = session.port.facts.abi.text_prefix
    for word in arguments:
        ips = find_sites(session.ftrace.records, word.text, prefix)
        views = [view for ip in ips for view in session.encodings.site(ip)]
        if not ips:
            insns = session.instructions(session.address_of(word.text), 1)
            views = [session.encodings.at(insn) for insn in insns]
        for view in views:
            if context.output:
                context.line()
            for line in encoding_lines(view):
                context.line(line)


COMMANDS = (
    Command(
        "site",
        "FUNC…",
        "show a call site as compiled, expected and now",
        site,
        Argument.FUNCTION,
        "Of a module: as its file has it, as loaded, expected and now.\n"
        "Marks: * changed since it was compiled or loaded, ! not what ftrace expects.",
    ),
    Command(
        "records",
        "[FUNC…]",
        "show the lists that records come from",
        records,
        Argument.FUNCTION,
        "Each entry as the file has it, its relocation, what is in memory, its record.",
    ),
    Command(
        "bits",
        "FUNC|ADDR…",
        "draw the bit fields of an instruction",
        bits,
        Argument.FUNCTION,
        "Of a FUNC its call site as it is in memory, and what would change if it were\n"
        "enabled; at an ADDR one instruction.",
    ),
    Command(
        "tramp",
        "[MODULE [FUNC]]",
        "show how calls reach the tracer",
        tramp,
        Argument.LOADED_MODULE,
        "Of a MODULE all trampolines, or that of FUNC, as they are in memory; ! is wrong.",
    ),
)
