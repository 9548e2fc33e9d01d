"""README: what is in the tree, for a person who has just found it."""

from __future__ import annotations

from collections.abc import Mapping

from .tree import File, Node

TEXT = """\
dynftrace: a small tracefs. The names, formats and errors are those of Linux.

A first trace:
  echo schedule > set_ftrace_filter     choose functions (globs work: *sched*)
  echo function > current_tracer        turn their call sites into calls
  cat trace                             see who called them, and when
  echo nop > current_tracer             turn the calls into nops again

Functions
  available_filter_functions        every function with a call site
  available_filter_functions_addrs  the same with the address of the site
  set_ftrace_filter                 the functions to trace; empty means all
  set_ftrace_notrace                the functions to leave out
        Words, parted by white space: a name, a glob (* ? [a-z]), or the number
        of a line of available_filter_functions; WORD:mod:MODULE for those of
        one module; !WORD takes away. > begins anew, >> adds.
        In set_ftrace_filter WORD:COMMAND[:COUNT] has something done when one of
        them is called, COUNT times at most: traceon, traceoff, stacktrace,
        snapshot, dump and cpudump (into dmesg); !WORD:COMMAND[:0] ends it.
  set_ftrace_pid                    the tasks to trace, by pid; none means all
  set_ftrace_notrace_pid            the tasks to leave out
  enabled_functions                 functions whose site holds a call now
  touched_functions                 functions whose site ever held one
  dyn_ftrace_total_info             how many sites there are

Tracing
  available_tracers                 names for current_tracer
  current_tracer                    the tracer in use; a new one empties trace
  tracing_on                        0 stops writing to the buffer, 1 goes on
  tracing_cpumask                   CPUs that write, a hexadecimal mask
  trace                             the buffer as text; writing with > clears it
  trace_pipe                        the same, taken out as it is read
  trace_marker                      text written here becomes an event
  trace_clock                       what time stamps count, [in use]
  trace_options, options/           how the text looks, and what happens when
  options/func_stack_trace          the way to each function behind its event
  saved_cmdlines                    names of the tasks by pid

Calls and returns, with current_tracer function_graph
  set_graph_function                functions traced with all they call
  set_graph_notrace                 functions left out with all they call
  max_graph_depth                   how deep in each other, 0 for any depth
  tracing_thresh                    least microseconds, told by the return alone
  options/funcgraph-*               columns, and what is told: overrun, cpu,
        overhead, proc, duration, abstime, irqs, tail, retval, retval-hex
  options/sleep-time                0: no time counts while its task is off

Hits and times of every function, without a trace
  function_profile_enabled          1 begins anew, 0 ends it and keeps tables;
                                    not together with function_graph
  trace_stat/functionN              of CPU N: hits, time, average, variance s^2
  options/sleep-time                as above
  options/graph-time                0: a time is without that of traced callees
  set_ftrace_filter, set_ftrace_notrace, tracing_thresh count here too

How much of a stack is used
  /proc/sys/kernel/stack_tracer_enabled
                                    1 looks at each call of a function, 0 stops
  stack_max_size                    most bytes of a stack so far; 0 begins anew
  stack_trace                       the calls that took them
  stack_trace_filter                functions to look at; empty means all

Events of your own
  dynamic_events                    definitions; > takes all away, >> adds one:
        f[:[GRP/]EVENT] FUNC [[NAME=]$argN[:TYPE]] [[NAME=]%REG[:TYPE]]
        is an event at the entry of FUNC with all registers, -:EVENT takes one
        away; TYPE is u8 to u64, s8 to s64, x8 to x64 or symbol

Events
  events/syscalls/                  sys_enter_CALL and sys_exit_CALL, by call
  events/GRP/EVENT/enable           1 is on, 0 off; GRP/enable and
                                    events/enable do all of theirs
  events/GRP/EVENT/format, id       how it lies in the buffer
  available_events                  all of them, GRP:EVENT
  set_event                         those that are on: GRP:EVENT, GRP:*, EVENT,
                                    and !WORD switches off

Buffers
  buffer_size_kb                    KB for each CPU
  buffer_total_size_kb              KB for all
  snapshot                          a spare buffer: 1 swaps it for the used one,
                                    0 frees it, any other number clears it
  per_cpu/cpuN/                     trace, trace_pipe, stats and size of one CPU
"""

FTRACED = """\

This kernel has no list of its call sites: ftraced finds those that are run into
  available_filter_functions        grows; what never ran is not in it
  ftraced_enabled                   0: it makes no more nops, 1: it goes on;
                                    says suspended while functions are traced
"""
"""Appended for a kernel whose call sites ftraced finds."""


class Readme(File):
    """The explanation of the tree."""

    def __init__(self, ftraced: bool) -> None:
        self._text = TEXT + FTRACED if ftraced else TEXT

    def read(self) -> str:
        """Return all of it."""
        return self._text


def files(ftraced: bool) -> Mapping[str, Node]:
    """Return the files of this module by name; `ftraced` says that it finds the call sites."""
    return {"README": Readme(ftraced)}
