"""The latency tracers, compared with spans that the host sees in stores to the CPU-local page.

The oracle knows nothing about the tracers: it watches the guest's stores to irqs_disabled and
preempt_count, the entries of interrupts, and when a CPU goes to sleep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from unicorn import UC_HOOK_CODE, UC_HOOK_MEM_WRITE, Uc

from dynftrace import arches
from dynftrace.core import abi
from dynftrace.core.abi import LOCAL_PAGE_SIZE, Hypercall, TraceLatency, TraceType
from dynftrace.core.ftrace.entry import CODE_REGIONS
from dynftrace.core.ftrace.latency import TRACERS
from dynftrace.core.machine.function import function_at
from dynftrace.core.machine.vcpu import Vcpu

from ..support.ports import FAMILIES
from ..support.user import User

SLACK_NS = 5_500
"""Time the tracer itself takes while interrupts are still off: it keeps the section."""

BEGIN_NS = 1_000
"""Time from a store that begins a section to the tracer's time stamp."""

TICK_US = abi.TICK_NS // 1000


class Spans:
    """Times at which one vCPU had interrupts or preemption off, as far as `kind` says."""

    def __init__(self, user: User, vcpu: Vcpu, kind: TraceLatency) -> None:
        boot = user.session.boot
        self._vcpu, self._kind = vcpu, kind
        self._kallsyms, self._memory = boot.kallsyms, boot.machine.memory
        fields = vcpu.local.dtype.fields
        assert fields is not None
        self._fields = {
            fields[name][1]: name for name in ("irqs_disabled", "preempt_count", "call")
        }
        self._irqs, self._preempt = (int(vcpu.local[n]) for n in ("irqs_disabled", "preempt_count"))
        self._asleep = vcpu.local["pid"] == 0  # a CPU begins the test in a task or asleep
        self._since: int | None = None
        self.found: list[tuple[int, int]] = []
        page = boot.port.facts.map.local + LOCAL_PAGE_SIZE
        self._page = page
        entry = boot.kallsyms.address("common_interrupt")
        assert entry is not None
        code = function_at(boot.port.facts, self._memory, boot.kallsyms, entry).code
        for offset in self._fields:
            place = page + offset
            vcpu._uc.hook_add(UC_HOOK_MEM_WRITE, self._store, None, place, place)
        vcpu._uc.hook_add(UC_HOOK_CODE, self._interrupt, None, code, code)

    def _interrupt(self, uc: Uc, address: int, size: int, data: object) -> None:
        self._irqs = 1
        self._changed()

    def _store(
        self, uc: Uc, access: int, address: int, size: int, value: int, data: object
    ) -> None:
        name = self._fields.get(address - self._page)
        region = self._memory.region_at(self._vcpu.registers.pc)
        if name is None or (region is not None and region.name in CODE_REGIONS):
            return
        if name == "irqs_disabled":
            self._irqs = value
            woken = self._kallsyms.name(self._vcpu.registers.pc).endswith("cpuidle_idle_call")
            self._asleep &= not (woken and not value)
        elif name == "preempt_count":
            self._preempt = value
        elif value == Hypercall.IRET:
            self._irqs = 0
        elif value == Hypercall.IDLE:
            self._asleep = True
        self._changed()

    def _changed(self) -> None:
        irqs = self._kind & TraceLatency.IRQS_OFF and self._irqs
        # The idle task runs with preemption off: what counts is the time that it is awake.
        preempt = self._kind & TraceLatency.PREEMPT_OFF and self._preempt and not self._asleep
        if bool(irqs or preempt) == (self._since is not None):
            return
        if self._since is None:
            self._since = self._vcpu.ticks
        else:
            self.found.append((self._since, self._vcpu.ticks))
            self._since = None


def disturbed(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Tell whether another span ended during `span` that was a maximum then: it is kept instead."""
    ended = sorted(spans, key=lambda each: each[1])
    longest = 0
    for start, end in ended:
        if span[0] < end < span[1] and end - start > longest - SLACK_NS:
            return True
        longest = max(longest, end - start)
    return False


def traced(arch: str, tracer: str, *, idle: str = "excluded") -> tuple[User, list[Spans]]:
    """Run a workload under `tracer` without functions, and return the user and the spans."""
    user = User(arch, alone=True)
    user(f"idle {idle}; echo 0 > options/function-trace; echo {tracer} > current_tracer")
    vcpus = user.session.boot.machine.vcpus
    spans = [Spans(user, vcpu, TRACERS[tracer].critical) for vcpu in vcpus]
    user("sleep 0.004; run syscalls 1; sleep 0.002")
    return user, spans


@pytest.mark.parametrize(
    ("arch", "tracer"),
    zip(FAMILIES, ["irqsoff", "preemptirqsoff", "preemptoff", "preemptoff"], strict=True),
)
def test_the_maximum_is_the_longest_span_that_the_host_sees(arch: str, tracer: str) -> None:
    user, spans = traced(arch, tracer)
    kept = user.session.boot.array.latency.tracer.kept
    assert len(spans[0].found) > 100
    assert int(user("cat tracing_max_latency")) == kept.latency // 1000
    around = [
        span
        for span in spans[kept.cpu].found
        if span[0] <= kept.time_start and kept.time_start + kept.latency <= span[1]
    ]
    assert len(around) == 1 and kept.time_start - around[0][0] < BEGIN_NS
    length = around[0][1] - around[0][0]
    assert max(length - SLACK_NS, SLACK_NS // 2) < kept.latency <= length
    found = [span for each in spans for span in each.found]
    longer = [span for span in found if span[1] - span[0] > length]
    assert all(disturbed(span, found) for span in longer) and len(longer) < 3


@pytest.mark.parametrize("arch", arches.names())
def test_sleep_is_a_latency_only_in_the_experiment(arch: str) -> None:
    user = User(arch)
    user("echo 0 > options/function-trace")
    for tracer in ("irqsoff", "preemptoff", "preemptirqsoff"):
        # A task that wakes up ends the idle task's time without preemption.
        for idle in ("counted", "excluded"):
            user(f"idle {idle}; echo nop > current_tracer; echo {tracer} > current_tracer")
            user("call sys_getpid; sleep 0.004; call sys_getpid")
            longest = int(user("cat tracing_max_latency"))
            if idle == "counted":
                assert longest > TICK_US * 9 // 10, tracer
                assert tracer != "irqsoff" or "task: swapper/" in user("cat trace")
            else:
                assert 0 < longest < TICK_US // 2, tracer
    user.alive()
    user("echo nop > current_tracer")
    assert all(vcpu.local["trace_type"] == 0 for vcpu in user.session.boot.machine.vcpus)


ROW = re.compile(
    r" *(.{1,8})-(\d+) +(\d+)([dD.b])(.)(.)(.)(.) +(\d+)us[ +!#*@$]: (\S+)(?: <-(\S+))?"
)


def rows(text: str) -> Iterator[re.Match[str]]:
    """Return the rows of events; what else is there must be a comment or a stack trace."""
    for line in text.splitlines():
        found = ROW.fullmatch(line)
        if found is not None:
            yield found
        else:
            assert line.startswith(("#", " => ")) or line.endswith("<stack trace>"), line


def since(names: list[str], first: str) -> list[str]:
    """Return the names from `first` on."""
    return names[names.index(first) :]


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_real_time_task_is_followed_from_its_wakeup_to_its_run(arch: str) -> None:
    user = User(arch)
    user("echo wakeup_rt > current_tracer; run syscalls 1; sleep 0.02")
    array, text = user.session.boot.array, user("cat trace")
    kept, table = array.latency.tracer.kept, array.text().table
    assert "# wakeup_rt latency trace v1.1.5 on 6.1.0-dynftrace\n" in text
    task = f"{kept.comm}-{kept.pid} (uid:0 nice:0 policy:1 rt_prio:1)\n"
    assert f"#    | task: {task}" in text and "started at" not in text
    switched = table.events[table.events["type"] == TraceType.CTX]
    wake, *_, switch = table.details.switches[switched["parent"]].tolist()
    names = table.details.switches.dtype.names
    assert names is not None
    woken, run = dict(zip(names, wake, strict=True)), dict(zip(names, switch, strict=True))
    assert (woken["wakeup"], run["wakeup"]) == (1, 0)
    assert all(each["next_pid"] == kept.pid and each["next_prio"] == 98 for each in (woken, run))
    assert woken["prev_prio"] == 120
    begun, *_, ended = switched["ts"].tolist()
    assert begun <= kept.time_start + BEGIN_NS
    # The end is taken after the stack trace, as in the kernel.
    assert 0 < ended - begun <= kept.latency < ended - begun + 5 * BEGIN_NS
    assert f"  + [{woken['next_cpu']:03d}] {kept.pid:7d}: 98:R {kept.comm}\n" in text
    assert f"==> [{run['next_cpu']:03d}] {kept.pid:7d}: 98:R {kept.comm}\n" in text
    functions = table.events["type"] == TraceType.FN
    assert {*table.events["cpu"][functions][1:]} == {run["next_cpu"]}
    called = user.session.boot.kallsyms.names_of(table.ips()[functions])
    assert f"{user.prefix}__dequeue_entity" in since(called, f"{user.prefix}ttwu_do_wakeup")


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_functions_of_the_section_are_inside_it(arch: str) -> None:
    user = User(arch)
    user("echo irqsoff > current_tracer; run syscalls 1")
    shown, kept = list(rows(user("cat trace"))), user.session.boot.array.latency.tracer.kept
    assert len(shown) > 3
    assert {int(row[3]) for row in shown} == {kept.cpu} and {row[4] for row in shown} == {"d"}
    times = [int(row[9]) for row in shown]
    assert times == sorted(times) and times[0] == 0 and times[-1] <= kept.latency // 1000 + 3
    assert shown[-1][10] == f"{user.prefix}tracer_hardirqs_on"
    # The first row and the last two are where the section began and ended, not calls.
    called = {row[10] for row in shown[1:-2]}
    assert called <= {*user("cat available_filter_functions").split()}
    table = user.session.boot.array.text().table
    assert (table.events["ts"] >= np.uint64(kept.time_start)).all()


def waits(user: User) -> dict[int, list[tuple[int, int]]]:
    """Watch CPU 0 for wakeups and switches; fill in the times of both for each task, by address."""
    boot, vcpu = user.session.boot, user.session.boot.machine.vcpus[0]
    fields = vcpu.local.dtype.fields
    assert fields is not None
    current = boot.port.facts.map.local + LOCAL_PAGE_SIZE + fields["current_task"][1]
    woken = boot.kallsyms.address(f"{user.prefix}ttwu_do_wakeup")
    assert woken is not None
    task = boot.port.facts.abi.arguments[1].name
    begun: dict[int, int] = {}
    found: dict[int, list[tuple[int, int]]] = {}

    def wake(uc: Uc, address: int, size: int, data: object) -> None:
        begun[boot.machine.registers(0)[task]] = vcpu.ticks

    def switch(uc: Uc, access: int, address: int, size: int, value: int, data: object) -> None:
        value %= 1 << 8 * boot.port.facts.pointer_size
        if value in begun:
            found.setdefault(value, []).append((begun.pop(value), vcpu.ticks))

    vcpu._uc.hook_add(UC_HOOK_CODE, wake, None, woken, woken)
    vcpu._uc.hook_add(UC_HOOK_MEM_WRITE, switch, None, current, current + 7)
    return found


@pytest.mark.parametrize("arch", ["x86_64", "ppc64"])
def test_the_longest_wakeup_is_that_of_its_task(arch: str) -> None:
    user = User(arch, cpus=1, alone=True)
    user("echo 0 > options/function-trace; echo wakeup > current_tracer")
    found = waits(user)
    user("sleep 0.03")
    kept = user.session.boot.array.latency.tracer.kept
    times, (start, end) = next(
        (times, time)
        for times in found.values()
        for time in times
        if 0 <= kept.time_start - time[0] < BEGIN_NS
    )
    assert len(times) > 5 and end - start == max(run - woken for woken, run in times)
    # The host sees the task's address stored after the tracer has seen the switch.
    assert kept.latency < end - start < kept.latency + SLACK_NS
    assert int(user("cat tracing_max_latency")) == kept.latency // 1000
