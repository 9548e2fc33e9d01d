// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Puts the layouts shared with the host into the debug information. All other
 * files have line information only (-g1). This file is built with types, so that
 * a test can compare core/abi.py with the compiler's layout of machine.h.
 */
#include "tracer.h" /* before kernel.h, which defines a macro `notrace` */
#include "module.h"
#include "trace_kprobe.h"
#include "tracepoint.h"
#include "workload.h"

#define DESCRIBE(type)                                                          \
	const type *const describe_##type __attribute__((used, section(".init.data"))) = 0

typedef struct cpu_clock cpu_clock;
typedef struct cpu_local cpu_local;
typedef struct ring_buffer_cpu ring_buffer_cpu;
typedef struct ftrace_update ftrace_update;
typedef struct multi_stop_data multi_stop_data;
typedef struct host_request host_request;
typedef struct saved_cmdline saved_cmdline;
typedef struct ftrace_entry ftrace_entry;
typedef struct ftrace_ops_entry ftrace_ops_entry;
typedef struct fgraph_control fgraph_control;
typedef struct ftrace_profile_control ftrace_profile_control;
typedef struct ftrace_profile ftrace_profile;
typedef struct ftrace_ret_stack ftrace_ret_stack;
typedef struct ftrace_ret_entry ftrace_ret_entry;
typedef struct func_probe func_probe;
typedef struct module module;
typedef struct kernel_symbol kernel_symbol;
typedef struct kernel_param kernel_param;
typedef struct workload workload;
typedef struct tracepoint tracepoint;
typedef struct syscall_metadata syscall_metadata;
typedef struct syscall_event syscall_event;
typedef struct trace_event_field trace_event_field;
typedef struct trace_event_call trace_event_call;
typedef struct trace_event_file trace_event_file;
typedef struct filter_pred filter_pred;
typedef struct event_trigger event_trigger;
typedef struct hist_op hist_op;
typedef struct hist_field hist_field;
typedef struct hist_var_ref hist_var_ref;
typedef struct hist_action hist_action;
typedef struct synth_event synth_event;
typedef struct hist_trigger hist_trigger;
typedef struct latency_control latency_control;
typedef struct wakeup_control wakeup_control;
typedef struct critical_section critical_section;
typedef struct max_trace_data max_trace_data;
typedef struct trace_array trace_array;
typedef struct fetch_insn fetch_insn;
typedef struct trace_probe trace_probe;
typedef struct kprobe kprobe;
typedef struct probe_range probe_range;

DESCRIBE(cpu_clock);
DESCRIBE(cpu_local);
DESCRIBE(ring_buffer_cpu);
DESCRIBE(ftrace_update);
DESCRIBE(multi_stop_data);
DESCRIBE(host_request);
DESCRIBE(saved_cmdline);
DESCRIBE(ftrace_entry);
DESCRIBE(ftrace_ops_entry);
DESCRIBE(fgraph_control);
DESCRIBE(ftrace_profile_control);
DESCRIBE(ftrace_profile);
DESCRIBE(ftrace_ret_stack);
DESCRIBE(ftrace_ret_entry);
DESCRIBE(func_probe);
DESCRIBE(module);
DESCRIBE(kernel_symbol);
DESCRIBE(kernel_param);
DESCRIBE(workload);
DESCRIBE(tracepoint);
DESCRIBE(syscall_metadata);
DESCRIBE(syscall_event);
DESCRIBE(trace_event_field);
DESCRIBE(trace_event_call);
DESCRIBE(trace_event_file);
DESCRIBE(filter_pred);
DESCRIBE(event_trigger);
DESCRIBE(hist_op);
DESCRIBE(hist_field);
DESCRIBE(hist_var_ref);
DESCRIBE(hist_action);
DESCRIBE(synth_event);
DESCRIBE(hist_trigger);
DESCRIBE(latency_control);
DESCRIBE(wakeup_control);
DESCRIBE(critical_section);
DESCRIBE(max_trace_data);
DESCRIBE(trace_array);
DESCRIBE(fetch_insn);
DESCRIBE(trace_probe);
DESCRIBE(kprobe);
DESCRIBE(probe_range);
