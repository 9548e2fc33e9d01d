/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tracer: what ftrace_caller's slot calls, and the tables the host fills for
 * it. Built as one relocatable object without call sites, complete in itself.
 *
 * Functions a slot or a list entry may name, all of one type:
 *   function_trace_call   one TRACE_FN event in this CPU's ring buffer
 *   function_stack_trace_call   the same, and one TRACE_STACK event behind it
 *   function_count_call   function_count[cpu]++
 *   function_profile_call one hit in this CPU's profile
 *   stack_trace_call      tells the machine where more of a stack is used than before
 *   fentry_trace_func     one event of the type `op`, with all registers
 *   ftrace_ops_list_func  each entry of ftrace_ops_list that wants this ip
 *   ftrace_pid_func       saved_func of the entry `op`, for tasks that are traced
 *   function_trace_probe_call   what the struct func_probe `op` is for
 * Functions for tracepoints (tracepoint.h):
 *   ftrace_syscall_enter, ftrace_syscall_exit   one event of syscall_events
 *   ftrace_graph_probe_sched_switch             takes a task's sleep out of its times
 * And for the host to call:
 *   tracing_mark_write    one TRACE_PRINT event
 * And for entry.S, while functions are traced from call to return:
 *   prepare_ftrace_return       has a function return through return_to_handler
 *   ftrace_return_to_handler    the function has returned: where to go on
 */
#ifndef TRACER_H
#define TRACER_H

#include "machine.h"

struct pt_regs;

typedef void (*ftrace_func_t)(unsigned long ip, unsigned long parent_ip, void *op,
			      struct pt_regs *regs);

/*
 * One user of the function calls. `filter` and `notrace` are guest addresses of
 * u64 arrays of ips in rising order, with the number of their elements; a
 * filter of 0 ips means all, a notrace of 0 ips none. Addresses are 64 bits
 * wide on every port, as in machine.h.
 */
struct ftrace_ops_entry {
	u64 func; /* ftrace_func_t, as the ABI calls it */
	u64 op;   /* its third argument */
	u64 filter, filter_count;
	u64 notrace, notrace_count;
	u64 saved_func; /* what ftrace_pid_func is to call; 0: not what obeys pids */
};

#define FTRACE_OPS_MAX 32

/* The host writes entries first and the count after them. */
extern struct ftrace_ops_entry ftrace_ops_list[FTRACE_OPS_MAX];
extern volatile u32 ftrace_ops_count;

/*
 * Which tasks are traced: `nr` pids in rising order, those of set_ftrace_pid, and
 * behind them `no_nr` of set_ftrace_notrace_pid. 0 of the first means all tasks.
 */
struct ftrace_pids {
	u64 nr, no_nr;
	u64 pids[];
};

/* Address of what is in force; 0: all tasks are traced. The host writes a list first
 * and its address after it. */
extern volatile unsigned long ftrace_pid_list;

int ftrace_ignore_task(void);

/*
 * Commands of set_ftrace_filter: what is done when one of some functions is called.
 * `counts` is a s64 array beside `ips`: how often it will still be done at each.
 */
struct func_probe {
	u32 command; /* FUNC_PROBE_* */
	u32 counted; /* 0: as often as they are called, and there are no counts */
	u64 ips, counts, nr;
};

#define FUNC_PROBE_TRACEON 1
#define FUNC_PROBE_TRACEOFF 2
#define FUNC_PROBE_STACKTRACE 3
#define FUNC_PROBE_SNAPSHOT 4
#define FUNC_PROBE_DUMP 5
#define FUNC_PROBE_CPUDUMP 6

#define FUNC_PROBES_MAX 12 /* of each command one without counts and one with */
extern struct func_probe func_probes[FUNC_PROBES_MAX];

/* Whether tracing_on is 1, for commands that do nothing then, or otherwise. */
extern volatile u32 tracing_is_on;

long trace_array_puts(unsigned long ip, const char *text, unsigned long len);

#define FUNCTION_COUNT_CPUS 8
extern u64 function_count[FUNCTION_COUNT_CPUS];

/* Bit of trace_recursion. */
#define TRACE_RECURSION_EVENT 1u

/*
 * The graph tracer, as the host sets it up: what is traced, and where a traced
 * function returns to. `ops` says which functions; those of `graph` are traced with
 * all they call, those of `notrace` left out with all they call; both as in struct
 * ftrace_ops_entry, 0 of them meaning all and none.
 */
struct fgraph_control {
	u32 on;
	u32 max_depth;         /* of functions in each other, 0: any */
	u32 skip_irqs;         /* functions of hard interrupts are left out */
	u32 sleep_off;         /* a task's time off the CPU does not count: how often so, 0: it does */
	u64 thresh;            /* least ns a function must take; then only returns are told */
	u64 return_to_handler; /* address of code */
	struct ftrace_ops_entry ops;
	u64 graph, graph_count;
	u64 notrace, notrace_count;
	u32 graph_off; /* a function's time is without that of traced callees, for the profiler */
	u32 unused;
};
extern struct fgraph_control fgraph;

/*
 * The function profiler: hits and times of each function, on each CPU. Who traces by
 * `fgraph` is either the graph tracer (`fgraph.on`) or the profiler, of the functions of
 * fgraph.ops.
 */
#define PROFILE_CPUS 8

struct ftrace_profile_control {
	u32 on;        /* number of this profiling, 0: none */
	u32 bits;      /* a CPU's table has 1 << bits slots */
	u32 limit;     /* most functions in one, fewer than slots */
	u32 unused;
	u64 tables;    /* struct ftrace_profile, those of CPU 0 first */
	u32 used[PROFILE_CPUS]; /* functions in each */
};
extern struct ftrace_profile_control fprofiler;

/* Of one function. It has the first free slot at or behind that of its hash. */
struct ftrace_profile {
	u64 ip; /* 0: the slot is free */
	u64 counter;
	u64 time; /* ns */
	u64 time_squared;
};

void profile_graph_entry(unsigned long *parent, unsigned long func, unsigned long frame_pointer);
void profile_graph_return(struct ftrace_ret_stack *stack, u64 rettime);
struct ftrace_ret_stack *current_ret_stack(void);

void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
			   unsigned long frame_pointer);
unsigned long ftrace_return_to_handler(unsigned long frame_pointer, unsigned long retval);

/* One TRACE_STACK event: the way to the function with its call site at ip. */
void ftrace_trace_stack(unsigned long ip, u32 irqs_off);

extern u64 stack_trace_max_size; /* bytes, of all tasks; the machine writes it */
extern u32 tracer_frame; /* least bytes the stack tracer adds to a stack; likewise */

int ftrace_lookup_ip(u64 array, u64 count, unsigned long ip);
int ftrace_ops_test(const struct ftrace_ops_entry *ops, unsigned long ip);

#define RING_BUFFER_DATA (RB_PAGE_SIZE - RB_PAGE_HEADER)
#define RINGBUF_TYPE_DATA_MAX 28u /* words in the header's type_len */
#define RINGBUF_TYPE_PADDING 29u
#define RINGBUF_TYPE_TIME_EXTEND 30u
#define RINGBUF_TYPE_TIME_STAMP 31u
#define RINGBUF_DELTA_BITS 27

/* In the guest's order of bit fields: type_len takes the first five bits. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RB_EVENT_HEADER(type_len, delta) ((u32)(type_len) | (u32)(delta) << 5)
#define RB_EVENT_TYPE_LEN(header) ((header) & 31)
#else
#define RB_EVENT_HEADER(type_len, delta) ((u32)(type_len) << 27 | (u32)(delta))
#define RB_EVENT_TYPE_LEN(header) ((header) >> 27)
#endif

#define unlikely(x) __builtin_expect(!!(x), 0)

void *ring_buffer_lock_reserve(unsigned long length);
void ring_buffer_unlock_commit(const void *data, unsigned long length);

/*
 * struct ftrace_entry as it lies in the buffer, where events begin at multiples of
 * 4: some architectures have other instructions for a long there.
 */
typedef unsigned long event_address __attribute__((aligned(4)));
struct ftrace_event {
	struct trace_entry ent;
	event_address ip;
	event_address parent_ip;
};

/* Who called whom, from the traced function on outwards. */
struct stack_entry {
	struct trace_entry ent;
	s32 size;
	u8 pad[sizeof(long) - sizeof(s32)];
	event_address caller[];
};

/* An event of an fprobe, with the registers in the port's order of struct pt_regs. */
struct fentry_trace_event {
	struct trace_entry ent;
	event_address ip;
	event_address parent_ip;
	event_address regs[];
};

/* How many there are; written by the host before anything runs. */
extern u32 nr_pt_regs;

/*
 * The event's first word, trace_entry's type, flags and preempt_count, as the
 * kernel makes them of the CPU's state. One word, because in the emulator each
 * store costs as much as ten instructions.
 */
static inline __attribute__((always_inline)) u32 tracing_gen_ctx(u16 type, u32 irqs_off)
{
	u32 count = this_cpu->preempt_count, depth = count & PREEMPT_MASK;
	u32 migrate = this_cpu->migrate_disable;
	u32 flags;

	flags = (irqs_off ? TRACE_FLAG_IRQS_OFF : 0) |
		(this_cpu->need_resched ? TRACE_FLAG_NEED_RESCHED : 0) |
		(count & HARDIRQ_MASK ? TRACE_FLAG_HARDIRQ : 0) |
		(count & SOFTIRQ_OFFSET ? TRACE_FLAG_SOFTIRQ : 0) |
		(count & SOFTIRQ_MASK & ~SOFTIRQ_OFFSET ? TRACE_FLAG_BH_OFF : 0);
	depth = (depth < 15 ? depth : 15) | (migrate < 15 ? migrate : 15) << 4;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return type | flags << 16 | depth << 24;
#else
	return (u32)type << 16 | flags << 8 | depth;
#endif
}

#endif
