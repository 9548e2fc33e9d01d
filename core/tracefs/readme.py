"""README: an explanation of the tree for a first reader."""

from __future__ import annotations

from collections.abc import Mapping

from .tree import FixedFile, Node

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
  set_ftrace_notrace                the functions not to trace
        Words, separated by white space: a name, a glob (* ? [a-z]), or a line
        number of available_filter_functions; WORD:mod:MODULE means only those
        in MODULE; !WORD removes. > replaces the list, >> adds to it.
        In set_ftrace_filter, WORD:COMMAND[:COUNT] executes a command when one
        of them is called, at most COUNT times: traceon, traceoff, stacktrace,
        snapshot, dump and cpudump (into dmesg), enable_event:GRP:EVENT and
        disable_event:GRP:EVENT; !WORD:COMMAND[:0] removes it.
  set_ftrace_pid                    the tasks to trace, by pid; empty means all
  set_ftrace_notrace_pid            the tasks not to trace
  options/function-fork             1: these lists follow forks and exits; as
                                    event-fork does for set_event_pid
  enabled_functions                 functions whose site holds a call now
  touched_functions                 functions whose site ever held one
  dyn_ftrace_total_info             number of call sites

Tracing
  available_tracers                 names for current_tracer
  current_tracer                    the tracer in use; a new one empties trace
  tracing_on                        0 stops writing to the buffer, 1 resumes
  tracing_cpumask                   CPUs that write, a hexadecimal mask
  trace                             the buffer as text; writing with > clears it
  trace_pipe                        the same; reading removes it from the buffer
  trace_marker                      text written here becomes an event
  trace_marker_raw                  the same in binary: a 4-byte id, then data
  trace_clock                       the clock of time stamps, [in use]
  trace_options, options/           options of the text and of the tracers
  options/func_stack_trace          1: each call is followed by its callers
  options/stacktrace                1: the same for each event of events/
  options/pause-on-trace            1: nothing is written while trace is open
  options/hash-ptr                  0: events show addresses, not their hashes
  options/block                     1: poll finds each pipe readable
  options/printk-msg-only           1: of messages and markers only the text
  options/test_nop_*                examples of the tracer nop, which accepts
                                    a change of one and refuses the other
  saved_cmdlines                    names of tasks by pid
  saved_cmdlines_size               number of tasks whose names are kept
  saved_tgids                       thread groups by pid, for events with the
                                    option record-tgid

Several traces at once
  instances/                        mkdir NAME makes a trace array with its own
                                    buffers, function tracer, events, filter,
                                    pids, clock, options, markers; rmdir
                                    removes it

Calls and returns, with current_tracer function_graph
  set_graph_function                functions traced with all they call
  set_graph_notrace                 functions not traced, nor what they call
  max_graph_depth                   greatest depth of nesting, 0 for any depth
  tracing_thresh                    shortest duration in us; then only
                                    returns are recorded
  options/funcgraph-*               columns and details: overrun, cpu,
        overhead, proc, duration, abstime, irqs, tail, retval, retval-hex
  options/sleep-time                0: durations exclude sleep

The longest latency: the time with interrupts or preemption off
  current_tracer                    irqsoff, preemptoff or preemptirqsoff; or
                                    wakeup, wakeup_rt: from the wakeup of an
                                    urgent (real-time) task until it runs
  tracing_max_latency               the longest time so far in us; a written
                                    number is the new limit
  tracing_thresh                    if not 0: keep every time of at least
                                    this many us, not only a new maximum
  trace                             what was called during the time kept
  options/function-trace            0: without functions
  options/latency-format            short rows with times since the start

Hits and times of every function, without a trace
  function_profile_enabled          1 starts from 0, 0 stops and keeps counts;
                                    not together with function_graph
  trace_stat/functionN              of CPU N: hits, time, average, variance s^2
  options/sleep-time                as above
  options/graph-time                0: times exclude those of traced callees
  set_ftrace_filter, set_ftrace_notrace and tracing_thresh apply as well

How much of a stack is used
  /proc/sys/kernel/stack_tracer_enabled
                                    1 checks the stack at each call, 0 stops
  stack_max_size                    most bytes in use so far; 0 resets it
  stack_trace                       the calls on the stack at that time
  stack_trace_filter                functions to check at; empty means all

After an oops
  /proc/sys/kernel/ftrace_dump_on_oops
                                    dumps the trace into dmesg: 1 of all CPUs,
                                    2 of the one that oopsed

NMIs
  /proc/sys/kernel/nmi_watchdog     1 sends one to each CPU every 10 s, 0 stops;
                                    a CPU that takes no ticks is reported

Events of your own
  dynamic_events                    - Create/append/remove/show definitions of
                                    all kinds; > removes all, >> adds one
  kprobe_events                     - Create/append/remove/show those of kprobes
        p[:[<group>/][<event>]] <place> [<args>]
        r[maxactive][:[<group>/][<event>]] <place> [<args>]
        e[:[<group>/][<event>]] <attached-group>.<attached-event> [<args>]
              [if <filter>]
        f[:[<group>/][<event>]] <function> [<args>]
        s:[synthetic/]<event> <type> <field>; ... as in synthetic_events
        -:[<group>/][<event>]
            place: [<module>:]<symbol>[+<offset>]|<memaddr>
            place (kretprobe): [<module>:]<symbol>[+<offset>]%return|<memaddr>
            args: <name>=fetcharg[:type]
            fetcharg: (%<register>|$<efield>), @<address>,
                      @<symbol>[+|-<offset>], $comm, $stack<index>, $stack,
                      $retval, $arg<N>, +|-[u]<offset>(<fetcharg>), \\imm-value,
                      \\"imm-string"
            type: s8/16/32/64, u8/16/32/64, x8/16/32/64, string, symbol,
                  b<bit-width>@<bit-offset>/<container-size>, ustring,
                  <type>\\[<array-size>\\]
            efield: a field of the event that an event probe (e) is attached to
        An fprobe (f) keeps all registers; it takes $argN, %REG, numbers, symbol
  kprobe_profile                    hits and misses of each kprobe
  /sys/kernel/debug/kprobes/        list of all kprobes; enabled: 0 disarms them

  error_log                         why definitions were refused; > clears it

Events
  events/GRP/                       sched, irq, timer, signal, kmem, module
                                    and raw_syscalls; syscalls has
                                    sys_enter_CALL and sys_exit_CALL
  events/GRP/EVENT/enable           1 is on, 0 off; GRP/enable and events/enable
                                    switch all events below them
  events/GRP/EVENT/format, id       layout and type in the buffer
  events/GRP/EVENT/filter           events that do not meet it are not written:
        FIELD == != < <= > >= & NUMBER, FIELD == != ~ "STRING" (~: a glob),
        && || ! ( ); a FIELD of format, CPU or COMM; 0 removes the filter;
        GRP/filter sets that of all events of the group
  events/GRP/EVENT/trigger          commands, executed when the event happens:
        traceon, traceoff, stacktrace, snapshot, enable_event:GRP:EVENT,
        disable_event:GRP:EVENT, enable_hist:GRP:EVENT, disable_hist:GRP:EVENT,
        each with [:COUNT] [if FILTER]; !COMMAND removes it
        hist counts; see below
  events/GRP/EVENT/hist             what hist has counted
  events/ftrace/print/trigger       triggers of each write to trace_marker
  set_event_pid                     the tasks whose events are written
  set_event_notrace_pid             the tasks whose events are not written
  available_events                  all events, GRP:EVENT
  set_event                         events that are on: GRP:EVENT, GRP:*, EVENT;
                                    !WORD switches off

Histograms of events
  hist:keys=<field>[,...]           one entry for each value of the keys, which
                                    can be any field, or the special string
                                    'stacktrace'; up to three together
      [:vals=<field>[,...]]         sums for each entry, at most two
      [:<var1>=<field|var_ref|numeric_literal>[,<var2>=...]]
                                    variables, one for each entry; $var1 reads
                                    one, also that of another event whose keys
                                    have the same values: $GRP.EVENT.var1
      [:sort=<field>[.descending][,...]] [:size=N] [:clock=CLOCK]
      [:name=NAME]                  histograms with one name count together
      [:pause] [:cont] [:clear]     changes an existing histogram
      [:<handler>.<action>]... [if FILTER]
        Fields are those of format, common_timestamp and common_cpu. Keys,
        values and variables can be computed with + - * / and -(...).
        FIELD.MODIFIER shows it as .hex .sym .sym-offset .syscall .log2
        .buckets=N .usecs .percent .graph, or common_pid.execname
    handlers
      onmatch(GRP.EVENT)            for each event that is counted
      onmax(var), onchange(var)     if the $variable has a new maximum or value
    actions
      trace(<synthetic_event>,...)  makes that event of variables and fields;
                                    also written <synthetic_event>(...)
      save(field,...)               keeps fields of the event in the entry
      snapshot()                    as the trigger snapshot
  synthetic_events                  definitions of events that histograms make;
                                    !NAME removes one. Types are s8 to u64, int,
                                    long, pid_t, char[N] and so on:
        echo 'myevent u64 lat; char name[]' >> synthetic_events

Buffers
  buffer_size_kb                    KiB for each CPU
  buffer_total_size_kb              KiB for all CPUs
  snapshot                          a spare buffer: 1 swaps it with the one in
                                    use, 0 frees it, other numbers clear it
  per_cpu/cpuN/                     trace, trace_pipe, stats, snapshot and size
                                    of one CPU
  free_buffer                       closing it frees the memory of the buffers
  buffer_percent                    how full a CPU's pipe is before poll returns
"""

FTRACED = """\

This kernel has no list of its call sites: ftraced finds those that are called
  available_filter_functions        grows; a function that never ran is missing
  ftraced_enabled                   1: sites found become nops, 0: they do not;
                                    reads suspended while functions are traced
"""
"""Appended for a kernel whose call sites ftraced finds."""


def files(ftraced: bool) -> Mapping[str, Node]:
    """Return the files of this module by name; `ftraced` says that it finds the call sites."""
    return {"README": FixedFile(TEXT + FTRACED if ftraced else TEXT)}
