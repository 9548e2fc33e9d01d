"""Makes views of a session, and does what the console asks of it.

Everything here runs in the machine's thread (see worker.py). Changes go through
the tracefs shell, so that each has a command that does the same; reading for a
view goes to the tables behind the tree, because formatting 60,000 functions as
text to parse them again would not fit into a frame. What did not change keeps
its object, so that a widget can tell by identity.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.errors import MemoryFault, MissingSymbolError
from ..core.ftrace.records import Flag
from ..core.session import Session
from ..core.shell.preview import preview
from ..core.shell.shell import Shell
from ..core.trace.explorer import TraceExplorer
from ..core.views.callsite import find_sites
from ..core.views.stepping import stepping
from ..core.views.stubs import module_stubs
from .functions import FunctionIndex, FunctionTable
from .hits import HitCounter
from .pathtext import path_lines
from .report import bug_report, oops_report
from .sitetext import site_lines, site_row
from .spans import Line, line
from .stubtable import reason_lines, table_lines
from .view import Done, Report, State, Status, View

TRACE_SHARE = 6
"""Of the time the machine runs, one part in this many goes into decoding its trace."""

_NOTHING_FOUND: tuple[Line, ...] = (
    line(("no call site has a record yet: let the machine run", "dim")),
)

_SITE = re.compile(r"(?:.*[;\n])?\s*site\s+'?(?P<name>[\w.$]+)'?\s*")
"""A command list that ends in showing a site: the console goes there instead."""


def column_in(command: str, words: str, column: int) -> int | None:
    """Where `column` of `words`, as the shell gave them on, is in `command` as typed.

    None where they stand otherwise there, by backslashes and the like.
    """
    before, behind = (
        r"\s+".join(map(re.escape, part.split(" "))) for part in (words[:column], words[column:])
    )
    match = re.match(rf"(.*{before})(?={behind})", command, re.DOTALL)
    return None if match is None else match.end(1)


class SessionDriver:
    """Drives one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.shell = Shell(session)
        self._ip: int | None = None
        self._stubs: tuple[tuple[int, str], tuple[Line, ...]] = ((0, ""), ())
        self._index: FunctionIndex | None = None
        self._index_of = (0, 0)
        self._table: FunctionTable | None = None
        self._hits = HitCounter()
        self._trace: TraceExplorer | None = None
        self._trace_of: tuple[object, ...] = ()
        self._next_trace = 0.0
        self._watched: int | None = None
        self._reports: dict[int, Report] = {}
        """By the identity of the error each tells of, in the order they came."""

    def run(self, ns: int) -> None:
        """Let the machine run."""
        self.session.run(ns)

    def now(self) -> int:
        """Virtual ns."""
        return self.session.now

    def stop(self) -> None:
        """End what runs."""
        self.session.stop()

    def look_at(self, ip: int) -> None:
        """Views show the site at `ip`."""
        self._ip = ip

    def watch(self, step: int | None) -> None:
        """Views tell where a CPU stands: the one stepped last, or others from there on."""
        if step is None:
            self._watched = None
            return
        cpus = len(self.session.machine.vcpus)
        at = self.session.stepper.last or 0 if self._watched is None else self._watched
        self._watched = (at + step) % cpus

    def execute(self, command: str) -> Done:
        """Execute a command of the shell."""
        outcome = self.shell.execute(command)
        if self._watched is not None and command.split()[:1] != ["bits"]:
            last = self.session.stepper.last
            self._watched = self._watched if last is None else last
        ip = None
        if outcome.status == 0 and (match := _SITE.fullmatch(command)):
            ip = self._ip_of(match["name"])
        column = None if outcome.wrong is None else column_in(command, *outcome.wrong)
        return Done(command, outcome.output, outcome.error, outcome.status, ip, column)

    def complete(self, text: str) -> Sequence[str]:
        """Whole lines `text` can become."""
        completion = self.shell.complete(text)
        return [text[: completion.start] + word for word in completion.words]

    def preview(self, text: str) -> str:
        """What `text` would do."""
        with self.session.lock:
            return preview(self.shell, text)

    def workloads(self) -> Sequence[str]:
        """What `run` runs."""
        return self.session.workloads()

    def _ip_of(self, name: str) -> int | None:
        records = self.session.ftrace.records
        rows = find_sites(records, name, self.session.port.facts.abi.text_prefix)
        return int(records.table["ip"][rows[0]]) if rows else None

    # Views

    def view(self, *, hurry: bool = False) -> View:
        """The state now; in a `hurry` the trace may be one of a moment ago."""
        session = self.session
        with session.lock:
            trace = self._events(hurry)
            table = self._functions(trace)
            row = None if self._ip is None else session.ftrace.records.find(self._ip)
            nothing = () if len(session.ftrace.records) else _NOTHING_FOUND
            site = nothing if row is None else site_lines(session.call_site(row))
            return View(
                status=self._status(),
                functions=table,
                trace=trace,
                ip=None if row is None else self._ip,
                site=site,
                site_row=site_row(site),
                path=self._way(row, hurry) if nothing or row is not None else (),
                reports=self._all_reports(),
                stepping=None if self._watched is None else stepping(session, self._watched),
            )

    def _status(self) -> Status:
        session = self.session
        machine, ring, ftrace = session.machine, session.ring, session.ftrace
        found = None
        if ftrace.ftraced is not None:
            found = ftrace.records.converted, ftrace.ftraced.waiting()
        return Status(
            arch=session.port.facts.name,
            cpus=len(machine.vcpus),
            tracer=session.array.tracer,
            tracing_on=session.array.tracing_on,
            events=ring.in_buffer(),
            lost=ring.overrun() + ring.dropped(),
            now=machine.now,
            patch=ftrace.patcher.method,
            ftrace_off=ftrace.disabled,
            halted=tuple(sorted({oops.cpu for oops in machine.oopses})),
            found=found,
        )

    def _functions(self, trace: TraceExplorer) -> FunctionTable:
        session = self.session
        records = session.ftrace.records
        version = (session.boots, records.generation)
        if self._index is None or version != self._index_of:
            modules = [module or "" for module in records.module_names()]
            prefix = session.port.facts.abi.text_prefix
            ips = records.table["ip"].copy()
            self._index = FunctionIndex(records.names, modules, ips, prefix)
            self._index_of = version
            self._table = None
        states, filtered = self._states()
        hits = self._hits.hits(session, self._index, trace)
        old = self._table
        if old is None or not (
            old.hits is hits.counts
            and old.counted == hits.counted
            and np.array_equal(old.states, states)
            and np.array_equal(old.filtered, filtered)
        ):
            self._table = old = FunctionTable(
                self._index, states, filtered, hits.counts, hits.counted
            )
        return old

    def _states(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        records = self.session.ftrace.records
        chosen = self.session.array.hash(False)
        filtered = np.zeros(len(records), np.bool_)
        if not chosen.empty:
            filtered = chosen.contains(records.table["ip"])
        states = np.where(filtered, State.CHOSEN, State.NOP).astype(np.uint8)
        states[records.flagged(Flag.ENABLED)] = State.TRACED
        states[records.table["failed"]] = State.REFUSED
        return states, filtered

    def _way(self, row: int | None, hurry: bool) -> tuple[Line, ...]:
        session = self.session
        if row is None:
            return self._unfound()
        try:
            lines = path_lines(session.call_path(row), self._reason(row))
        except MissingSymbolError as error:
            return (line(("! no way to a tracer", "bad")), line(str(error)))
        return (*lines, *self._stub_table(row, hurry))

    def _reason(self, row: int) -> tuple[Line, ...]:
        try:
            return reason_lines(self.session.encodings.out_of_reach(row))
        except MemoryFault:
            return ()  # the call site pane says that the site's memory is not there

    def _stub_table(self, row: int, hurry: bool) -> tuple[Line, ...]:
        """The stubs of the module that a record is of; in a `hurry` as they were a moment ago."""
        session = self.session
        module = session.modules.find(session.ftrace.records.module_names()[row] or "")
        of = (session.boots, "" if module is None else module.name)
        if module is None:
            self._stubs = of, ()
        elif not hurry or self._stubs[0] != of:
            stubs = module_stubs(session.ftrace, session.paths, module.name, module.trampolines)
            own = [stub for stub in stubs if module.contains(stub.hop.address)]
            self._stubs = of, table_lines(module.name, own)
        return self._stubs[1]

    def _unfound(self) -> tuple[Line, ...]:
        """The way that all calls take before any site was found."""
        return path_lines(self.session.paths.mcount_hops()) or _NOTHING_FOUND

    def _events(self, hurry: bool) -> TraceExplorer:
        session = self.session
        ring = session.ring
        counts = [(ring.in_buffer(cpu), ring.overrun(cpu)) for cpu in ring.cpus]
        version = (session.boots, ring.resets, *counts, session.array.context())
        if self._trace is None or version != self._trace_of:
            begin = time.monotonic()
            if self._trace is None or not hurry or begin >= self._next_trace:
                self._trace = TraceExplorer(session.array.follow())
                self._trace_of = version
                # A big buffer takes long to decode; leave most of the time to the machine.
                self._next_trace = begin + TRACE_SHARE * (time.monotonic() - begin)
        return self._trace

    def _all_reports(self) -> tuple[Report, ...]:
        session = self.session
        errors = [*session.machine.oopses]
        bug = session.ftrace.bug
        known = self._reports
        self._reports = {}
        for oops in errors:
            self._reports[id(oops)] = known.get(id(oops)) or oops_report(oops)
        if bug is not None:
            self._reports[id(bug)] = known.get(id(bug)) or bug_report(
                bug, session.paths.insns, session.kallsyms.format
            )
        return tuple(self._reports.values())
