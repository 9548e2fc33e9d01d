"""Commands on call sites: site, records, bits, tramp."""

from __future__ import annotations

import numpy as np

from ...views.call_site import find_sites
from ...views.stubs import module_stubs
from ..command import Argument, Arguments, Command, Context, UsageMistake, expect
from ..outcome import ShowedBits, ShowedPath, ShowedRecords, ShowedSite, ShowedStubs
from ..text.call_site import path_lines, site_lines, stub_lines
from ..text.encoding import encoding_lines
from ..text.records import call_lines, entry_lines, listing_lines, recording_lines
from .memory import hex_bytes

HOW = "--how"


def site(context: Context, arguments: Arguments) -> None:
    """Show the call sites of functions: as compiled, as ftrace expects them, as they are now."""
    expect(arguments, 1)
    session, boot = context.session, context.boot
    prefix = session.port.facts.abi.text_prefix
    shown = 0
    for word in arguments:
        ips = find_sites(boot.ftrace.records, word.text, prefix)
        found = [*ips, *session.unfound_sites(word.text)]
        if not found:
            context.fail(f"site: {word.text}: no function of that name has a call site")
        else:
            function = session.call_site(found[0]).name.removeprefix(prefix)
            context.did(ShowedSite(found[0], function, recorded=bool(ips)))
        for ip in found:
            if shown:
                context.line()
            shown += 1
            for line in site_lines(session.call_site(ip)):
                context.line(line)


def tramp(context: Context, arguments: Arguments) -> None:
    """Show the paths of calls through ftrace_caller and its copies, or a module's stubs."""
    expect(arguments, 0, 2)
    session, boot = context.session, context.boot
    if not arguments:
        callers = boot.ftrace.entry.callers
        ways = [boot.paths.mcount_hops(), *map(boot.paths.entry_hops, callers)]
        trampolines = boot.ftrace.trampolines
        if trampolines is not None:
            ways += map(boot.paths.trampoline_hops, trampolines.of(boot.ftrace.ops))
        for hops in filter(None, ways):
            if context.output:
                context.line()
            for line in path_lines(hops):
                context.line(line)
        context.did(ShowedPath())
        return
    module = boot.modules.find(arguments[0].text)
    if module is None:
        raise UsageMistake(f"module '{arguments[0].text}' is not loaded")
    stubs = module_stubs(boot.ftrace, boot.paths, module.name, module.stubs)
    if not stubs:
        context.line(f"{module.name} reaches ftrace_caller without stubs")
        return
    if len(arguments) > 1:
        wanted = {arguments[1].text, session.port.facts.abi.text_prefix + arguments[1].text}
        stubs = tuple(stub for stub in stubs if stub.symbol in wanted)
        if not stubs:
            context.fail(f"tramp: {module.name} has no stub of {arguments[1].text}")
    for line in stub_lines(stubs):
        context.line(line)
    if stubs:
        context.did(ShowedStubs(module.name))


def records(context: Context, arguments: Arguments) -> None:
    """Show the lists of call sites, and the record that each entry became."""
    session, boot = context.session, context.boot
    prefix = session.port.facts.abi.text_prefix
    how = [word for word in arguments if word.text == HOW]
    functions = [word for word in arguments if word.text != HOW]
    known, rows = boot.ftrace.records, None
    if functions:
        rows = []
        for word in functions:
            found = known.rows_of(np.array(find_sites(known, word.text, prefix), np.uint64))
            if len(found):
                context.did(ShowedRecords(known.names[int(found[0])].removeprefix(prefix)))
            else:
                context.fail(f"records: {word.text}: no function of that name has a record")
            rows += found.tolist()
        if not rows:
            return
    else:
        context.did(ShowedRecords())
    if how and rows is None:
        _how(context)
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
        for entry in each.entries if how else ():
            ip = 0 if entry.row is None else known.ip_of(entry.row)
            for line in call_lines(session.recorded_call(ip)):
                context.line(line)
    if not shown:
        context.line("no loaded file has a list of call sites")


def _how(context: Context) -> None:
    """Show how each file's sites were found, and the first text that ftrace compared and wrote."""
    session, boot = context.session, context.boot
    ftrace = boot.ftrace
    if ftrace.ftraced is not None:
        context.line("no list: mcount notes its callers as they run, and ftraced makes records")
        return
    lists = {each.file: each for each in session.listings([])}
    for found, change in session.recordings():
        for line in recording_lines(found, lists.get(found.file), change):
            context.line(line)
        context.line()
    mcount = boot.kallsyms.format(ftrace.mcount) if ftrace.mcount else "none: no site calls it"
    context.line(f"MCOUNT_ADDR           {ftrace.mcount:x} {mcount}".rstrip())
    written = "wrote nothing"
    if ftrace.init_edit is not None:
        at, text = (
            int(ftrace.init_edit.address[0]),
            ftrace.init_edit.row(ftrace.init_edit.replacement, 0),
        )
        code = boot.disassembler.line(at, text)
        written = f"wrote {code} at {boot.kallsyms.format(at)}"
    context.line(f"ftrace_dyn_arch_init  {written}")


def bits(context: Context, arguments: Arguments) -> None:
    """Draw the bit fields of the instructions of call sites, or of one instruction."""
    expect(arguments, 1)
    session, boot = context.session, context.boot
    prefix = session.port.facts.abi.text_prefix
    for word in arguments:
        place, given, digits = word.text.partition("=")
        ips = [] if given else find_sites(boot.ftrace.records, place, prefix)
        views = [view for ip in ips for view in boot.encodings.site(ip)]
        address = ips[0] if ips else session.address_of(place)
        if given:
            data = hex_bytes([digits])
            if not data:
                raise UsageMistake(f"'{digits}' is not bytes in hex")
            insns = boot.disassembler.decode(address, data)
            views = [boot.encodings.at(insn) for insn in insns[:1]]
        elif not ips:
            views = [boot.encodings.at(insn) for insn in session.instructions(address, 1)]
        symbol = boot.kallsyms.lookup(address)
        name = "" if symbol is None else symbol.name.removeprefix(prefix)
        context.did(ShowedBits(address, name))
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
        "A module's site: as in its file, as loaded, expected and now.\n"
        "Marks: * changed since it was compiled or loaded, ! not what ftrace expects.",
    ),
    Command(
        "records",
        f"[{HOW}] [FUNC…]",
        "show the lists of call sites",
        records,
        Argument.FUNCTION,
        "Each entry: as in the file, its relocation, as in memory, its record.\n"
        f"{HOW}: how recordmcount finds the calls of mcount in the file, and what ftrace\n"
        "compared with MCOUNT_ADDR when it first disabled them.",
    ),
    Command(
        "bits",
        "FUNC|ADDR[=BYTES]…",
        "draw the bit fields of an instruction",
        bits,
        Argument.FUNCTION,
        "FUNC: its call site as it is in memory, and as it would be when enabled.\n"
        "ADDR: the instruction at that address, or BYTES (in hex) as if they were there.",
    ),
    Command(
        "tramp",
        "[MODULE [FUNC]]",
        "show how calls reach the tracer",
        tramp,
        Argument.LOADED_MODULE,
        "MODULE: its stubs, or the one of FUNC, as they are in memory; ! means damaged.",
    ),
)
