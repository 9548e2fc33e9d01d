"""Makes views of a session, and executes the console's commands in it.

Everything here runs in the machine's thread (see worker.py). Changes go through the
tracefs shell, so that each has an equivalent command. A view is made from the tables that
the tree's files format: formatting 60,000 functions as text and parsing them again would
take longer than a frame. Unchanged parts of a view stay the same objects, so that a widget
can compare them by identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.errors import MemoryFault, MissingSymbolError
from ...core.ftrace.patch import Patcher, Performed
from ...core.ftrace.records import Flag
from ...core.machine.vcpu import State as VcpuState
from ...core.session.boot import Boot
from ...core.session.pictures import picture_of
from ...core.session.session import Session
from ...core.shell.outcome import (
    Effect,
    ReadFile,
    ShowedPath,
    ShowedRegisters,
    ShowedSite,
    ShowedStubs,
)
from ...core.shell.preview import preview
from ...core.shell.text.encoding import out_of_reach_lines
from ...core.trace.select.explorer import TraceExplorer
from ...core.tracefs.tracedat import recorded
from ...core.views.call_site import find_sites
from ...core.views.drawing import Drawing
from ...core.views.lanes import Lanes
from ...core.views.stepping import Stepping
from ...core.views.stubs import StubView, module_stubs
from ...core.views.time_pictures import FlameGraph
from ..explore.function_table import TO_BEGIN_WITH, FunctionIndex, FunctionTable
from ..explore.hit_counts import HitCounter
from ..present.call_path import PathText
from ..present.call_site import MOST_AFTER, SiteText
from ..present.empty_states import NO_SITE
from ..present.line import Line, line
from ..present.reports import bug_report, oops_report
from ..present.view import STEPPING, Done, Report, State, Status, View
from ..tours.tour import shell_of
from .experiments import offered
from .worker import Clock, HostClock

TRACE_SHARE = 6
"""Decoding the trace takes at most this fraction (1/N) of the time the machine runs."""

_START = TO_BEGIN_WITH[0]
"""The function that the console shows first: every workload calls it."""

_NOTHING_FOUND: tuple[Line, ...] = (line((NO_SITE, "dim")),)


class SessionDriver:
    """Drives one session."""

    def __init__(self, session: Session, clock: Clock | None = None) -> None:
        """`clock` is by default the host's."""
        self.session = session
        self._clock = clock or HostClock()
        self.shell = shell_of(session)
        self.progress = ""
        """Progress of a `back`, or ""."""
        session.history.progress = self._on_progress
        self._ip: int | None = None
        records, prefix = session.boot.ftrace.records, session.port.facts.abi.text_prefix
        self._start = next(iter(find_sites(records, _START, prefix)), None)
        self._stubs: tuple[tuple[int, str], tuple[StubView, ...]] = ((0, ""), ())
        self._index: FunctionIndex | None = None
        self._index_of = (0, 0)
        self._table: FunctionTable | None = None
        self._hits = HitCounter()
        self._trace: TraceExplorer | None = None
        self._trace_of: tuple[object, ...] = ()
        self._decoded = self._rest = 0.0  # when the trace was decoded, and for how long it is good
        self._watched: int | None = None
        self._reports: dict[tuple[int, str, bool], Report] = {}
        """Reports by the identity of the error they are about, in the order of the errors."""

    @property
    def boot(self) -> Boot:
        """The machine since it was last started; `reboot` may replace it."""
        return self.session.boot

    def _on_progress(self, text: str) -> None:
        self.progress = text

    def run(self, ns: int) -> None:
        """Let the machine run."""
        self.session.run(ns)

    def now(self) -> int:
        """Return the virtual time in ns."""
        return self.session.now

    def stop(self) -> None:
        """End the current run soon."""
        self.session.stop()

    def look_at(self, ip: int) -> None:
        """Make views show the site at `ip`."""
        self._ip = ip

    def watch(self, step: int | None) -> None:
        """Make views show the CPU stepped last, or the one `step` after it; None shows no CPU."""
        if step is None:
            self._watched = None
            return
        cpus = len(self.boot.machine.vcpus)
        at = self.boot.stepper.last or 0 if self._watched is None else self._watched
        self._watched = (at + step) % cpus

    def execute(self, command: str, typed: bool = False) -> Done:
        """Execute a command of the shell; the files of those that keys send are the root's."""
        outcome = self.shell.execute(command, from_root=not typed)
        last = self.boot.stepper.last
        if self._watched is not None and outcome.changed and last is not None:
            self._watched = last
        return Done(
            command,
            outcome.output,
            outcome.error,
            outcome.status,
            outcome.effects,
            outcome.wrong,
            outcome.toned,
        )

    def complete(self, text: str) -> Sequence[str]:
        """Return the possible completions of the line `text`."""
        completion = self.shell.complete(text)
        return [text[: completion.start] + word for word in completion.words]

    def preview(self, text: str) -> str:
        """Return a sentence about the effect of `text`."""
        with self.session.lock:
            return preview(self.shell, text)

    def picture(self, name: str, function: str = "") -> Drawing | FlameGraph | Lanes:
        """Return a picture; raises what `picture_of` raises."""
        return picture_of(self.session, name, function)

    def trace_dat(self) -> bytes:
        """Return the events in the buffers as trace-cmd's file."""
        return recorded(self.boot.array)

    def patches(self) -> Sequence[Performed]:
        """Return the phases of changes of text that were performed last."""
        return self.boot.ftrace.patcher.performed

    def workloads(self) -> Sequence[str]:
        """Return the names that `run` accepts."""
        return self.session.workloads()

    def lines(self) -> int:
        """Return the number of lines that `back` can undo."""
        return self.session.history.lines

    # Views

    def view(self, *, old_s: float = 0.0) -> View:
        """Make a view; its trace may be `old_s` host seconds old, or more if decoding is slow."""
        session = self.session
        with session.lock:
            trace = self._events(old_s)
            table = self._functions(trace)
            ip = self._ip
            if ip is not None and self.boot.ftrace.records.find(ip) is None:
                ip = None
            found = len(self.boot.ftrace.records) > 0
            stepping = None if self._watched is None else session.stepping(self._watched)
            return View(
                status=self._status(),
                functions=table,
                trace=trace,
                ip=ip,
                site=None if ip is None else SiteText(self.boot.sites.at(ip, after=MOST_AFTER)),
                start=self._start,
                path=self._path(ip, old_s > 0) if ip is not None or not found else None,
                reports=self._all_reports(),
                stepping=stepping,
                call=self._call(stepping, old_s > 0),
                patching=session.patch_view(),
                watching=self.boot.ftrace.patcher.watching,
                experiments=offered(session),
                sights=self._sights(ip),
            )

    def _sights(self, ip: int | None) -> Mapping[int, tuple[Effect, ...]]:
        """Return, by pane, the effects of the command that shows the same for the site at `ip`."""
        records = self.boot.ftrace.records
        row = None if ip is None else records.find(ip)
        sights: dict[int, tuple[Effect, ...]] = {3: (ShowedPath(),), 4: (ReadFile("trace"),)}
        row = None if ip is None else records.find(ip)
        if ip is not None and row is not None:
            prefix = self.session.port.facts.abi.text_prefix
            name = records.names[row].removeprefix(prefix)
            sights[2] = (ShowedSite(ip, name),)
        if self._stubs[1]:
            sights[3] += (ShowedStubs(self._stubs[0][1]),)
        if self._watched is not None:
            sights[STEPPING] = (ShowedRegisters(self._watched),)
        return sights

    def _status(self) -> Status:
        session = self.session
        machine, ring, ftrace = self.boot.machine, self.boot.ring, self.boot.ftrace
        found = None
        if ftrace.ftraced is not None:
            found = ftrace.records.converted, ftrace.ftraced.waiting()
        return Status(
            arch=session.port.facts.name,
            cpus=len(machine.vcpus),
            tracer=self.boot.array.tracer,
            tracing_on=self.boot.array.tracing_on,
            events=ring.in_buffer(),
            overwritten=ring.overrun(),
            dropped=ring.dropped(),
            now=machine.now,
            patch=_patch(ftrace.patcher),
            ftrace_off=ftrace.disabled,
            halted=tuple(sorted({oops.cpu for oops in machine.oopses})),
            found=found,
            boots=self.boot.modules.boots,
        )

    def _functions(self, trace: TraceExplorer) -> FunctionTable:
        session = self.session
        records = self.boot.ftrace.records
        version = (session.boots, records.generation)
        if self._index is None or version != self._index_of:
            modules = [module or "" for module in records.module_names()]
            prefix = session.port.facts.abi.text_prefix
            ips = records.table["ip"].copy()
            self._index = FunctionIndex(records.names, modules, ips, prefix, TO_BEGIN_WITH)
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
        records = self.boot.ftrace.records
        chosen = self.boot.array.hash(False)
        filtered = np.zeros(len(records), np.bool_)
        if not chosen.empty:
            filtered = chosen.contains(records.table["ip"])
        states = np.where(filtered, State.CHOSEN, State.NOP).astype(np.uint8)
        states[records.flagged(Flag.ENABLED)] = State.TRACED
        states[records.table["failed"]] = State.REFUSED
        return states, filtered

    def _path(self, ip: int | None, hurry: bool) -> PathText:
        """Return the call path from the site at `ip`."""
        if ip is None:
            # While ftraced has found no site, every call takes this path.
            return PathText(self.boot.paths.mcount_hops(), said=_NOTHING_FOUND)
        try:
            hops = self.session.call_path(ip)
        except MissingSymbolError as error:
            return PathText(said=(line(("! no path to a tracer", "bad")), line(str(error))))
        return PathText(tuple(hops), self._reason(ip), *self._stub_table(ip, hurry))

    def _call(self, stepping: Stepping | None, hurry: bool) -> PathText | None:
        """Return the path of the call that the watched CPU is executing."""
        if stepping is None or stepping.ip is None:
            return None
        return self._path(stepping.ip, hurry)

    def _reason(self, ip: int) -> tuple[str, ...]:
        """Return why the call at `ip` cannot reach ftrace_caller itself."""
        try:
            return tuple(out_of_reach_lines(self.boot.encodings.out_of_reach(ip)))
        except MemoryFault:
            return ()  # the call site pane already says that the memory is not mapped

    def _stub_table(self, ip: int, hurry: bool) -> tuple[str, tuple[StubView, ...]]:
        """Return the module of the site at `ip`, and its stubs; in a `hurry` slightly old ones."""
        module = self.boot.modules.find(self.boot.ftrace.state_at(ip).module or "")
        of = (self.session.boots, "" if module is None else module.name)
        if module is None:
            self._stubs = of, ()
        elif not hurry or self._stubs[0] != of:
            stubs = module_stubs(self.boot.ftrace, self.boot.paths, module.name, module.stubs)
            own = tuple(stub for stub in stubs if module.contains(stub.hop.address))
            self._stubs = of, own
        return of[1], self._stubs[1]

    def _events(self, old_s: float) -> TraceExplorer:
        session = self.session
        ring = self.boot.ring
        counts = [(ring.in_buffer(cpu), ring.overrun(cpu)) for cpu in ring.cpus]
        version = (session.boots, ring.resets, *counts, self.boot.array.context())
        if self._trace is None or version != self._trace_of:
            begin = self._clock.now()
            # Not after a reboot, or after the buffer was cleared.
            same = old_s and version[:2] == self._trace_of[:2]
            good_until = self._decoded + max(self._rest, old_s) if same else begin
            if self._trace is None or begin >= good_until:
                self._trace = TraceExplorer(self.boot.array.follow())
                self._trace_of = version
                # Decoding a big buffer is slow: leave most of the time to the machine.
                self._decoded, self._rest = begin, TRACE_SHARE * (self._clock.now() - begin)
        return self._trace

    def _all_reports(self) -> tuple[Report, ...]:
        machine = self.boot.machine
        bug = self.boot.ftrace.bug
        known = self._reports
        self._reports = {}
        for oops in machine.oopses:
            stopped = machine.vcpus[oops.cpu].state is VcpuState.DEAD
            key = id(oops), oops.cause, stopped
            self._reports[key] = known.get(key) or oops_report(oops, stopped)
        if bug is not None:
            key = id(bug), "", True
            self._reports[key] = known.get(key) or bug_report(
                bug, self.boot.paths.insns, self.boot.kallsyms.format
            )
        return tuple(self._reports.values())


def _patch(patcher: Patcher) -> str:
    """Return the patch method, and the progress of the patch under way."""
    patch = patcher.patch
    if patch is not None:
        return f"{patch.current.method} {patch.done + 1}/{len(patch.phases)}"
    return f"watching {patcher.method}" if patcher.watching else patcher.method
