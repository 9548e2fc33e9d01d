"""Layouts and numbers that the machine and its guest share, as the host uses them.

`arches/guest/include/machine.h` defines them; here are the same layouts as numpy
dtypes, for either byte order, each made once, and the same numbers as enums. A test compares the
two through the debug information of every built image.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from functools import cache
from typing import Any

import numpy as np

LOCAL_PAGE_SIZE = 4096
LOCAL_PAGES = 2

RB_PAGE_SIZE = 4096
RB_PAGE_HEADER = 16

TICK_NS = 1_000_000
"""Time between two timer interrupts of a vCPU, in virtual ns."""

FTRACE_RETFUNC_DEPTH = 50
"""Entries of a task's stack of return addresses."""

MAX_ERRNO = 4095
"""Largest errno: a function that fails returns its negative, also as a pointer, or NULL."""

THREAD_SIZE = 16384
"""Size and alignment of a task's stack, in bytes."""

NMI_STACK_SIZE = 8192
"""Size of a CPU's stack for NMIs, in bytes."""

SAVED_CMDLINES = 128
TASK_COMM_LEN = 16

FTRACE_OPS_MAX = 32

PROFILE_CPUS = 8

FTRACE_HASHSIZE = 1024
FTRACE_PAGE_SIZE = 4096

MODULE_NAME_LEN = 56

MODULE_ARGS_MAX = 512
"""Bytes of a module's parameters as text, with the NUL."""


LATENCY_CPUS = 8


class TraceLatency(IntFlag):
    """Bits of `cpu_local.trace_type`: the states that make a critical section."""

    IRQS_OFF = 1 << 1
    PREEMPT_OFF = 1 << 2


class ModuleState(IntEnum):
    """`struct module.state`."""

    COMING = 0
    LIVE = 1
    GOING = 2


class RingBufferFlag(IntFlag):
    """Bits of `ring_buffer_cpu.flags`."""

    RECORD_ON = 1 << 0
    OVERWRITE = 1 << 1
    CLOCK_COUNTER = 1 << 2
    RECORD_CMD = 1 << 3
    FUNCTION_OFF = 1 << 4
    CLOCK_GLOBAL = 1 << 5
    CLOCK_JIFFIES = 1 << 6
    RECORD_TGID = 1 << 7


class Hypercall(IntEnum):
    """Numbers of `cpu_local.call`."""

    PRINTK = 1
    IDLE = 2
    CPU_UP = 3
    IRET = 4
    SEND_IPI = 5
    REQUEST_DONE = 6
    PANIC = 7
    FTRACE_INIT = 8
    FTRACE_UPDATE = 9
    GRAPH_STOP = 12
    TRACE_CONTROL = 13
    TRACE_STACK = 14
    STACK_MAX = 15
    UPDATE_MAX_TR = 20
    NMI_RETURN = 21
    TEXT_POKE = 22
    SYNC_CORE = 23
    FTRACE_UPDATED = 24
    PID_FOLLOW = 25
    TRAP_RETURN = 26


class TextPoke(IntEnum):
    """Answers to `TEXT_POKE`: the guest's next action."""

    DONE = 0
    SYNC = 1
    WAIT = 2


class UpdateMethod(IntEnum):
    """`ftrace_update.method`."""

    STOP_MACHINE = 1
    BREAKPOINT = 2


class MultiStop(IntEnum):
    """`multi_stop_data.state`."""

    NONE = 0
    PREPARE = 1
    DISABLE_IRQ = 2
    RUN = 3
    EXIT = 4


class ProbeCommand(IntEnum):
    """`func_probe.command`: the action when a function is called."""

    TRACEON = 1
    TRACEOFF = 2
    STACKTRACE = 3
    SNAPSHOT = 4
    DUMP = 5
    CPUDUMP = 6
    ENABLE_EVENT = 7
    DISABLE_EVENT = 8


class TraceIter(IntFlag):
    """Bits of `trace_array.flags`: options that the guest obeys."""

    PRINTK = 1 << 0
    STACKTRACE = 1 << 1


class SlotFlag(IntFlag):
    """`dyn_ftrace.flags` of a kernel whose call sites are found while it runs."""

    FREE = 1 << 0
    CONVERTED = 1 << 1


class Vector(IntEnum):
    """Interrupts that the machine delivers."""

    TIMER = 0
    RESCHEDULE = 1
    REQUEST = 2
    DEVICE = 3
    CALL_FUNCTION = 4
    UPDATE = 5
    IRQ_WORK = 6


class RequestKind(IntEnum):
    """`host_request.kind`."""

    CALL = 1
    WORKLOAD = 2


class TraceType(IntEnum):
    """`trace_entry.type` of the events that the tracers write."""

    FN = 1
    CTX = 2
    WAKE = 3
    STACK = 4
    PRINT = 5
    BPRINT = 6
    BPUTS = 14
    RAW_DATA = 18
    GRAPH_RET = 10
    GRAPH_ENT = 11


FIRST_TRACE_EVENT_ID = 0x20
"""First `trace_entry.type` of the kernel's trace events, below `FIRST_SYSCALL_ID`."""

LAST_TRACE_EVENT_ID = 0xBF

FIRST_SYNTH_EVENT_ID = 0xC0
"""First `trace_entry.type` of synthetic events, below `FIRST_SYSCALL_ID`."""

LAST_SYNTH_EVENT_ID = 0xFF

TRACE_EVENT_FILES = 0xC00
"""Types below it can have a filter and triggers."""

FILTER_ACCEPT = 0xFFFF_FFFF
FILTER_REJECT = 0xFFFF_FFFE

HIST_KEYS_MAX = 3
HIST_VALS_MAX = 3
HIST_VARS_MAX = 16
HIST_KEY_SIZE = 384
HIST_STACK = 16
HIST_STRING = 256
HIST_PARAMS_MAX = 64
HIST_DIV_SHIFT = 20


class FilterKind(IntEnum):
    """`filter_pred.kind`: the kind of value compared; `hist_op.kind` has these kinds and more."""

    NUMBER = 0
    STRING = 1
    DYN_STRING = 2
    COMM = 3
    CPU = 4


class HistKind(IntEnum):
    """`hist_op.kind`, if it is not a `FilterKind`."""

    HITCOUNT = 16
    TIMESTAMP = 17
    STACK = 18
    CONST = 19
    VAR_REF = 20
    EXECNAME = 21
    LOG2 = 22
    BUCKET = 23
    UMINUS = 24
    PLUS = 25
    MINUS = 26
    MULT = 27
    DIV = 28
    DIV_SHIFT = 29


class HistHandler(IntEnum):
    """`hist_action.handler`: when an action is executed."""

    ONMATCH = 1
    ONMAX = 2
    ONCHANGE = 3


class HistAction(IntEnum):
    """`hist_action.action`."""

    SAVE = 1
    TRACE = 2
    SNAPSHOT = 3


class FilterOp(IntEnum):
    """`filter_pred.op`."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    BAND = 6
    GLOB = 7


class TriggerCommand(IntEnum):
    """`event_trigger.command`; the first four are those of `ProbeCommand`."""

    TRACEON = 1
    TRACEOFF = 2
    STACKTRACE = 3
    SNAPSHOT = 4
    ENABLE_EVENT = 16
    DISABLE_EVENT = 17
    HIST = 18
    ENABLE_HIST = 19
    DISABLE_HIST = 20
    EPROBE = 21


FIRST_SYSCALL_ID = 0x100
"""First `trace_entry.type` of system call events: two for each call, below `FIRST_EVENT_ID`."""

SYSCALLS_MAX = 384
SYSCALL_ARGS_MAX = 6

FIRST_EVENT_ID = 0x400
"""First `trace_entry.type` of fprobe events: one number for each fprobe."""

LAST_EVENT_ID = 0x7FF

FIRST_PROBE_EVENT_ID = 0x800
"""First `trace_entry.type` of other dynamic events, below `TRACE_EVENT_FILES`."""

PROBE_EVENT_SIZE = 1024
"""Maximum bytes of the arguments of a probe event, including their strings."""

PROBE_RANGES = 256
PT_REGS_NONE = 0xFFFF_FFFF


class FetchOp(IntEnum):
    """`fetch_insn.op`."""

    END = 0
    ARG = 1
    REG = 2
    STACK = 3
    STACKP = 4
    RETVAL = 5
    IMM = 6
    COMM = 7
    FIELD = 8
    FIELD_AT = 9
    FIELD_DYN = 10
    DEREF = 11
    ST_RAW = 12
    ST_MEM = 13
    ST_STRING = 14
    MOD_BF = 15


class TraceFlag(IntFlag):
    """`trace_entry.flags`; the guest sets those of machine.h."""

    IRQS_OFF = 0x01
    NEED_RESCHED_LAZY = 0x02
    NEED_RESCHED = 0x04
    HARDIRQ = 0x08
    SOFTIRQ = 0x10
    PREEMPT_RESCHED = 0x20
    NMI = 0x40
    BH_OFF = 0x80


_CPU_CLOCK = [("ticks", "u8"), ("deadline", "u8")]

_RING_BUFFER_CPU = [
    ("pages", "u8"),
    ("nr_pages", "u4"),
    ("flags", "u4"),
    ("head_page", "u4"),
    ("tail_page", "u4"),
    ("read", "u4"),
    ("write", "u4"),
    ("write_stamp", "u8"),
    ("entries", "u8"),
    ("overrun", "u8"),
    ("dropped", "u8"),
    ("commit_overrun", "u8"),
    ("read_events", "u8"),
    ("write_page", "u4"),
    ("commit_end", "u4"),
    ("committing", "u4"),
    ("named", "u4"),
]

_FUNC_PROBE = [
    *((name, "u4") for name in ("command", "counted")),
    *((name, "u8") for name in ("ips", "counts", "nr", "files", "array")),
]

_TRACE_EVENT_FILE = [
    *((name, "u4") for name in ("enabled", "soft_disabled")),
    *((name, "u8") for name in ("filter", "triggers")),
]

_CPU_LOCAL = [
    ("stop_request", "u4"),
    ("cpu", "u4"),
    ("nr_cpus", "u4"),
    ("irqs_disabled", "u4"),
    ("preempt_count", "u4"),
    ("need_resched", "u2"),
    ("migrate_disable", "u2"),
    ("current_task", "u8"),
    ("pid", "i4"),
    ("trace_recursion", "u4"),
    ("call", "u4"),
    ("trace_type", "u4"),
    ("call_arg", "u8", (4,)),
    ("call_result", "u8"),
    ("local_unused", "u8"),
    ("scratch", "u8", (2,)),
    ("nmi_stack", "u8"),
    ("ret_stack", "u8"),
    ("buffer", _RING_BUFFER_CPU),
]

_HOST_REQUEST = [
    ("sequence", "u4"),
    ("kind", "u4"),
    ("function", "u8"),
    ("argument", "u8", (6,)),
    ("count", "u8"),
    ("comm", f"S{TASK_COMM_LEN}"),
    ("name", "S32"),
]

_SAVED_CMDLINE = [("pid", "i4"), ("tgid", "i4"), ("comm", f"S{TASK_COMM_LEN}")]


def _layout(fields: list[Any], byteorder: str) -> np.dtype[np.void]:
    """Return the dtype of `fields` in `byteorder` ("little" or "big"), packed like the C layout."""
    return np.dtype(fields).newbyteorder("<" if byteorder == "little" else ">")


@cache
def cpu_clock(byteorder: str) -> np.dtype[np.void]:
    """Return `struct cpu_clock`, the first CPU-local page, read-only in the guest."""
    return _layout(_CPU_CLOCK, byteorder)


@cache
def cpu_local(byteorder: str) -> np.dtype[np.void]:
    """Return `struct cpu_local`, the second CPU-local page."""
    return _layout(_CPU_LOCAL, byteorder)


@cache
def ring_buffer_cpu(byteorder: str) -> np.dtype[np.void]:
    """Return `struct ring_buffer_cpu`, also the field `buffer` of `cpu_local`."""
    return _layout(_RING_BUFFER_CPU, byteorder)


TRACE_ARRAY_CPUS = 8


@cache
def trace_array(byteorder: str) -> np.dtype[np.void]:
    """Return `struct trace_array` of the guest's tracer.h."""
    fields: list[Any] = [(name, "u8") for name in ("pids", "event_pids", "next")]
    fields += [("flags", "u4"), ("tracing_is_on", "u4")]
    fields.append(("probes", _FUNC_PROBE, (2 * len(ProbeCommand),)))
    fields.append(("buffers", _RING_BUFFER_CPU, (TRACE_ARRAY_CPUS,)))
    fields.append(("event_files", _TRACE_EVENT_FILE, (TRACE_EVENT_FILES,)))
    return _layout(fields, byteorder)


@cache
def host_request(byteorder: str) -> np.dtype[np.void]:
    """Return `struct host_request`."""
    return _layout(_HOST_REQUEST, byteorder)


@cache
def ftrace_update(byteorder: str) -> np.dtype[np.void]:
    """Return `struct ftrace_update`."""
    names = ("sequence", "method", "wakeups", "task")
    return _layout([(name, "u4") for name in names], byteorder)


@cache
def multi_stop_data(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct multi_stop_data`, the state of a `stop_machine()`."""
    fields = [(name, "u4") for name in ("state", "thread_ack", "num_threads", "active_cpu")]
    return _layout([*fields, *((name, f"u{pointer_size}") for name in ("fn", "data"))], byteorder)


@cache
def saved_cmdline(byteorder: str) -> np.dtype[np.void]:
    """Return `struct saved_cmdline`."""
    return _layout(_SAVED_CMDLINE, byteorder)


_FTRACE_OPS_ENTRY = [
    (name, "u8")
    for name in (
        *("func", "op", "filter", "filter_count", "notrace", "notrace_count"),
        "saved_func",
    )
]


@cache
def ftrace_ops_entry(byteorder: str) -> np.dtype[np.void]:
    """Return `struct ftrace_ops_entry` of the guest's tracer.h: an entry of ftrace_ops_list."""
    return _layout(_FTRACE_OPS_ENTRY, byteorder)


@cache
def tracepoint(byteorder: str) -> np.dtype[np.void]:
    """Return `struct tracepoint` of `arches/guest/include/tracepoint.h`."""
    return _layout([("enabled", "u4"), ("unused", "u4"), ("func", "u8")], byteorder)


@cache
def syscall_metadata(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct syscall_metadata`: pointers to the names of a call and its arguments."""
    long = f"u{pointer_size}"
    fields: list[Any] = [("name", long), ("nb_args", f"i{pointer_size}")]
    fields += [(name, long, (SYSCALL_ARGS_MAX,)) for name in ("types", "args")]
    return _layout(fields, byteorder)


@cache
def trace_event_field(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct trace_event_field` of the guest's trace_events.h."""
    fields = [(name, f"u{pointer_size}") for name in ("type", "name")]
    numbers = ("offset", "size", "is_signed", "unused")
    return _layout([*fields, *((name, "u4") for name in numbers)], byteorder)


@cache
def trace_event_call(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct trace_event_call`: pointers to the description of an event."""
    names = ("system", "name", "print_fmt", "fields")
    return _layout([(name, f"u{pointer_size}") for name in names], byteorder)


@cache
def trace_event_file(byteorder: str) -> np.dtype[np.void]:
    """Return `struct trace_event_file`: the switches of an event."""
    return _layout(_TRACE_EVENT_FILE, byteorder)


@cache
def filter_pred(byteorder: str) -> np.dtype[np.void]:
    """Return `struct filter_pred`: one test of a filter."""
    numbers = ("kind", "op", "offset", "size", "is_signed", "on_true", "on_false", "invert")
    fields = [(name, "u4") for name in numbers]
    return _layout([*fields, ("value", "u8"), ("pattern", "u8")], byteorder)


@cache
def event_trigger(byteorder: str) -> np.dtype[np.void]:
    """Return `struct event_trigger`: a command of an event."""
    fields: list[Any] = [("next", "u8"), ("command", "u4"), ("counted", "u4"), ("count", "i8")]
    fields += [("filter", "u8"), ("data", "u8"), ("paused", "u4"), ("unused", "u4")]
    return _layout(fields, byteorder)


@cache
def hist_op(byteorder: str) -> np.dtype[np.void]:
    """Return `struct hist_op`: a step of an expression."""
    numbers = ("kind", "offset", "size", "is_signed")
    return _layout([*((name, "u4") for name in numbers), ("value", "u8")], byteorder)


@cache
def hist_field(byteorder: str) -> np.dtype[np.void]:
    """Return `struct hist_field`: a key, a value or a variable of a histogram."""
    names = ("first", "nr_ops", "to", "size", "string", "is_string")
    return _layout([(name, "u4") for name in names], byteorder)


@cache
def hist_var_ref(byteorder: str) -> np.dtype[np.void]:
    """Return `struct hist_var_ref`: a reference to a variable of a histogram."""
    return _layout([("hist", "u8"), ("var", "u4"), ("once", "u4")], byteorder)


@cache
def hist_action(byteorder: str) -> np.dtype[np.void]:
    """Return `struct hist_action`: an action of a histogram."""
    fields: list[Any] = [(name, "u4") for name in ("handler", "action", "ref", "var")]
    fields += [("event", "u8"), ("value", "u8"), ("taken", "u4"), ("nr_params", "u4")]
    fields += [("comm", f"S{TASK_COMM_LEN}"), ("key", "u8", (HIST_KEY_SIZE // 8,))]
    return _layout([*fields, ("params", "u4", (HIST_PARAMS_MAX,))], byteorder)


@cache
def hist_trigger(byteorder: str) -> np.dtype[np.void]:
    """Return `struct hist_trigger`: a histogram."""
    numbers = (
        *("nr_keys", "nr_vals", "nr_vars", "nr_save", "nr_refs", "nr_actions"),
        *("key_size", "elt_size", "vars", "comm", "bits", "max", "entries", "unused"),
    )
    fields: list[Any] = [(name, "u4") for name in numbers]
    tables = ("map", "elts", "ops", "fields", "refs", "actions")
    return _layout([*fields, *((name, "u8") for name in ("hits", "drops", *tables))], byteorder)


@cache
def synth_event(byteorder: str) -> np.dtype[np.void]:
    """Return `struct synth_event`: a synthetic event."""
    fields: list[Any] = [(name, "u4") for name in ("type", "nr_fields", "nr_u64", "unused")]
    fields.append(("fields", [("kind", "u4"), ("size", "u4")], (HIST_PARAMS_MAX,)))
    return _layout(fields, byteorder)


@cache
def fetch_insn(byteorder: str) -> np.dtype[np.void]:
    """Return `struct fetch_insn` of the guest's trace_kprobe.h: a step of fetching an argument."""
    fields = [(name, "u4") for name in ("op", "size", "dest", "shift")]
    return _layout([*fields, ("value", "u8")], byteorder)


@cache
def trace_probe(byteorder: str) -> np.dtype[np.void]:
    """Return `struct trace_probe`: a probe of an event."""
    numbers = ("type", "size", "enabled", "needs_regs", "maxactive", "active")
    fields = [(name, "u8") for name in ("next", "code", "ip")]
    fields += [(name, "u4") for name in numbers]
    return _layout([*fields, ("nhit", "u8"), ("nmissed", "u8")], byteorder)


@cache
def kprobe(byteorder: str) -> np.dtype[np.void]:
    """Return `struct kprobe`: a probed address."""
    return _layout([(name, "u8") for name in ("ip", "probe", "slot")], byteorder)


@cache
def probe_range(byteorder: str) -> np.dtype[np.void]:
    """Return `struct probe_range`: memory that probes can read."""
    return _layout([("start", "u8"), ("end", "u8")], byteorder)


@cache
def syscall_event(byteorder: str) -> np.dtype[np.void]:
    """Return `struct syscall_event`: an entry of the tracer's `syscall_events`."""
    return _layout([(name, "u2") for name in ("enter", "exit", "nb_args", "unused")], byteorder)


@cache
def fgraph_control(byteorder: str) -> np.dtype[np.void]:
    """Return `struct fgraph_control` of the guest's tracer.h: settings of the graph tracer."""
    fields: list[Any] = [(name, "u4") for name in ("on", "max_depth", "skip_irqs", "sleep_off")]
    fields += [("thresh", "u8"), ("return_to_handler", "u8"), ("ops", _FTRACE_OPS_ENTRY)]
    fields += [(name, "u8") for name in ("graph", "graph_count", "notrace", "notrace_count")]
    fields += [(name, "u4") for name in ("graph_off", "slow_entry", "slow_return", "unused")]
    return _layout(fields, byteorder)


@cache
def ftrace_profile_control(byteorder: str) -> np.dtype[np.void]:
    """Return `struct ftrace_profile_control` of the guest's tracer.h: the profiler's state."""
    fields: list[Any] = [(name, "u4") for name in ("on", "bits", "limit", "unused")]
    fields += [("tables", "u8"), ("used", "u4", (PROFILE_CPUS,))]
    return _layout(fields, byteorder)


@cache
def ftrace_profile(byteorder: str) -> np.dtype[np.void]:
    """Return `struct ftrace_profile`: hits and times of a function on one CPU; times in ns."""
    names = ("ip", "counter", "time", "time_squared")
    return _layout([(name, "u8") for name in names], byteorder)


@cache
def ftrace_ret_stack(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct ftrace_ret_stack`: a task's traced functions and where they return to."""
    entry: list[Any] = [(name, f"u{pointer_size}") for name in ("ret", "func", "fp")]
    entry += [(name, "u4") for name in ("told", "profiled")]
    if pointer_size == 4:
        entry.append(("unused", "u4"))
    entry += [("calltime", "u8"), ("subtime", "u8"), ("probe", "u8")]
    names = ("index", "depth", "overrun", "graph_depth", "notrace_index", "graph_in_irq")
    fields: list[Any] = [(name, "u4") for name in (*names, "slept", "unused")]
    fields.append(("timestamp", "u8"))
    return _layout([*fields, ("stack", entry, (FTRACE_RETFUNC_DEPTH,))], byteorder)


@cache
def latency_control(byteorder: str) -> np.dtype[np.void]:
    """Return `struct latency_control`: the limits of the latency tracers, in ns."""
    fields: list[Any] = [(name, "u8") for name in ("max_latency", "thresh", "sequence")]
    return _layout([*fields, ("lock", "u4"), ("unused", "u4")], byteorder)


@cache
def critical_section(byteorder: str) -> np.dtype[np.void]:
    """Return `struct critical_section`: the section in which a CPU is."""
    fields: list[Any] = [("preempt_timestamp", "u8"), ("start", "u8"), ("sequence", "u8")]
    return _layout([*fields, ("tracing", "u4"), ("unused", "u4")], byteorder)


@cache
def max_trace_data(byteorder: str) -> np.dtype[np.void]:
    """Return `struct max_trace_data`: the section in the spare buffer; times in ns."""
    names = ("saved_latency", "time_start", "critical_start", "critical_end")
    fields: list[Any] = [(name, "u8") for name in names]
    fields += [("cpu", "u4"), ("pid", "i4"), ("comm", f"S{TASK_COMM_LEN}"), ("nice", "i4")]
    fields += [(name, "u4") for name in ("policy", "rt_priority", "unused")]
    return _layout(fields, byteorder)


@cache
def wakeup_control(byteorder: str) -> np.dtype[np.void]:
    """Return `struct wakeup_control`: the woken task that a wakeup tracer follows."""
    fields: list[Any] = [("task", "u8")]
    fields += [(name, "u4") for name in ("rt_only", "cpu", "current_cpu")]
    return _layout([*fields, ("prio", "i4")], byteorder)


@cache
def func_probe(byteorder: str) -> np.dtype[np.void]:
    """Return `struct func_probe` of the guest's tracer.h: a command of a trace array."""
    return _layout(_FUNC_PROBE, byteorder)


@cache
def this_module(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct module` of the guest's module.h, the module's `__this_module`, without `arch`.

    That is its last member, `mod_arch_specific()`; a module built without it has no stubs.
    """
    fields = [
        ("name", f"S{MODULE_NAME_LEN}"),
        ("refcnt", "i4"),
        ("state", "u4"),
        ("init", f"u{pointer_size}"),
        ("exit", f"u{pointer_size}"),
    ]
    return _layout(fields, byteorder)


@cache
def mod_arch_specific(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct mod_arch_specific`: addresses of the stubs of the callers, or 0."""
    return _layout([(name, f"u{pointer_size}") for name in ("tramp", "tramp_regs")], byteorder)


@cache
def kernel_param(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct kernel_param` of the guest's module.h: a parameter of a module."""
    fields = ("name", "set", "arg", "size")
    return _layout([(name, f"u{pointer_size}") for name in fields], byteorder)


@cache
def dyn_ftrace(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct dyn_ftrace` of the guest's ftraced.h: a slot for a call site."""
    names = ("next", "ip", "flags")
    return _layout([(name, f"u{pointer_size}") for name in names], byteorder)


@cache
def ftrace_page(byteorder: str, pointer_size: int) -> np.dtype[np.void]:
    """Return `struct ftrace_page`, without the slots after it."""
    return _layout([(name, f"u{pointer_size}") for name in ("next", "index")], byteorder)
