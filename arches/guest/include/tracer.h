/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tracer: the functions that ftrace_caller's slot calls, and their tables, which
 * the host fills. Built as one self-contained relocatable object without call sites.
 *
 * Functions for a slot or a list entry, all of one type:
 *   function_trace_call   one TRACE_FN event in this CPU's ring buffer
 *   function_stack_trace_call   the same, followed by one TRACE_STACK event
 *   array_function_trace_call, array_function_stack_trace_call   the same for the buffers of
 *                         an instance, the struct trace_array `op`
 *   function_count_call   function_count[cpu]++
 *   function_profile_call one hit in this CPU's profile
 *   stack_trace_call      reports a new maximum of stack use to the machine
 *   fentry_trace_func     one event of the type `op`, with all registers
 *   irqsoff_tracer_call   function_trace_call inside a critical section of this CPU
 *   wakeup_tracer_call    function_trace_call on the CPU where a woken task will run
 *   ftrace_ops_list_func  calls each entry of ftrace_ops_list that matches this ip
 *   ftrace_pid_func       calls saved_func of the entry `op` for traced tasks
 *   function_trace_probe_call   executes the command of the struct func_probe `op`
 * Functions for tracepoints (tracepoint.h):
 *   ftrace_syscall_enter, ftrace_syscall_exit   one event of syscall_events
 *   ftrace_graph_probe_sched_switch             subtracts a task's sleep from its times
 *   trace_printk_write                          one event for a message of trace_printk()
 *   tracer_hardirqs_off, tracer_preempt_off, tracer_start_critical   start a critical section
 *   tracer_hardirqs_on, tracer_preempt_on, tracer_stop_critical      end it
 *   ftrace_pid_follow                           reports forks and exits for the lists of pids
 *   probe_wakeup, probe_wakeup_migrate_task, probe_wakeup_sched_switch   follow a woken task
 * Called by the host:
 *   tracing_mark_write, tracing_mark_raw_write   one TRACE_PRINT or TRACE_RAW_DATA event
 * Called by entry.S while functions are traced from entry to return:
 *   prepare_ftrace_return       makes a function return through return_to_handler
 *   ftrace_return_to_handler    returns the real return address
 */
#ifndef TRACER_H
#define TRACER_H

#include "machine.h"

struct pt_regs;

typedef void (*ftrace_func_t)(unsigned long ip, unsigned long parent_ip, void *op,
			      struct pt_regs *regs);

/*
 * One user of function tracing. `filter` and `notrace` are guest addresses of
 * sorted u64 arrays of ips, with their numbers of elements. A filter of 0 ips
 * means all functions, a notrace of 0 ips means none. Addresses are 64 bits
 * wide on every port, as in machine.h.
 */
struct ftrace_ops_entry {
	u64 func; /* ftrace_func_t, as the ABI calls it */
	u64 op;   /* third argument of func */
	u64 filter, filter_count;
	u64 notrace, notrace_count;
	u64 saved_func; /* function that ftrace_pid_func calls; 0: ignores pids */
};

#define FTRACE_OPS_MAX 32

/* The host writes the entries first, then the count. */
extern struct ftrace_ops_entry ftrace_ops_list[FTRACE_OPS_MAX];
extern volatile u32 ftrace_ops_count;

/*
 * The traced tasks: `nr` sorted pids of set_ftrace_pid, followed by `no_nr` pids of
 * set_ftrace_notrace_pid. An `nr` of 0 means all tasks.
 */
struct ftrace_pids {
	u64 nr, no_nr;
	u64 pids[];
};

/* Address of the current list; 0: all tasks are traced. The host writes a list first,
 * then its address. */
extern volatile unsigned long ftrace_pid_list;

int ftrace_ignore_task(void);
int ftrace_pid_ignored(u64 list);

/* The time by a clock other than that of this CPU; `flags` are a buffer's. */
u64 trace_clock_of(u32 flags);

/*
 * A command of set_ftrace_filter, executed when one of its functions is called.
 * `counts` is an s64 array parallel to `ips`: the remaining executions at each.
 */
struct func_probe {
	u32 command; /* FUNC_PROBE_* */
	u32 counted; /* 0: no counts, execute on every call */
	u64 ips, counts, nr;
	u64 files;   /* parallel to `ips`: struct trace_event_file, for FUNC_PROBE_ENABLE_EVENT
		      * and FUNC_PROBE_DISABLE_EVENT */
	u64 array;   /* struct trace_array */
};

#define FUNC_PROBE_TRACEON 1
#define FUNC_PROBE_TRACEOFF 2
#define FUNC_PROBE_STACKTRACE 3
#define FUNC_PROBE_SNAPSHOT 4
#define FUNC_PROBE_DUMP 5
#define FUNC_PROBE_CPUDUMP 6
#define FUNC_PROBE_ENABLE_EVENT 7
#define FUNC_PROBE_DISABLE_EVENT 8

#define FUNC_PROBES_MAX 16 /* each command without and with counts */

/*
 * The switches of an event. The host first makes a filter or a trigger, then writes its
 * address here. No CPU is in the tracer meanwhile.
 */
struct trace_event_file {
	u32 enabled;       /* the event is made, for its triggers if not for the buffer */
	u32 soft_disabled; /* it is not written; event triggers change this */
	u64 filter;        /* struct filter_pred array; 0: all events pass */
	u64 triggers;      /* first struct event_trigger, or 0 */
};

#define TRACE_EVENT_FILES 0xc00 /* types that can have a filter and triggers: all below it */

#define TRACE_ARRAY_CPUS 8

/*
 * A trace array: the top one, or an instance. Written by the host.
 */
struct trace_array {
	u64 pids;       /* of functions: struct ftrace_pids; 0: all. The top one has ftrace_pid_list */
	u64 event_pids; /* of events: likewise */
	u64 next;       /* struct trace_array of the next instance, or 0 */
	u32 flags;      /* TRACE_ITER_* */
	u32 tracing_is_on; /* traceon and traceoff depend on it */
	struct func_probe probes[FUNC_PROBES_MAX];
	struct ring_buffer_cpu buffers[TRACE_ARRAY_CPUS]; /* the top one has those of cpu_local */
	struct trace_event_file event_files[TRACE_EVENT_FILES]; /* indexed by type */
};

#define TRACE_ITER_PRINTK 1u     /* messages of the tracers are written */
#define TRACE_ITER_STACKTRACE 2u /* each event is followed by a stack trace */

extern struct trace_array global_trace;

/* The buffer of this CPU in `tr`. */
static inline __attribute__((always_inline)) volatile struct ring_buffer_cpu *
array_buffer(struct trace_array *tr)
{
	return tr == &global_trace ? &this_cpu->buffer :
				     &tr->buffers[this_cpu->cpu % TRACE_ARRAY_CPUS];
}

void *array_buffer_lock_reserve(volatile struct ring_buffer_cpu *buffer, unsigned long length);
void array_buffer_unlock_commit(volatile struct ring_buffer_cpu *buffer);

/* ftrace_trace_stack() and trace_stack_from() in another buffer of this CPU. */
void array_trace_stack(volatile struct ring_buffer_cpu *buffer, unsigned long ip, u32 irqs_off);
void array_trace_stack_from(volatile struct ring_buffer_cpu *buffer, unsigned long address,
			    u32 irqs_off);

/*
 * Have the next task switch record the names of both tasks: an event was written to `tr`. At a
 * switch, the kernel compares `entries` of the main buffer with their number at the last record.
 */
static inline __attribute__((always_inline)) void tracing_record_later(struct trace_array *tr)
{
	if (tr != &global_trace)
		this_cpu->buffer.named = ~(u32)this_cpu->buffer.entries;
}

/* Execute the command `snapshot` of `tr`. */
void tracing_snapshot_instance(struct trace_array *tr, unsigned long ip, unsigned long parent_ip);

/* Write `text` to `tr` for `ip`; return the bytes used, or -EBADF if tracing is off. */
long trace_array_puts(struct trace_array *tr, unsigned long ip, const char *text,
		      unsigned long len);

#define FUNCTION_COUNT_CPUS 8
extern u64 function_count[FUNCTION_COUNT_CPUS];

/*
 * Bits of trace_recursion: the tracer runs in this context. As in the kernel, each context
 * has its own, so that an NMI inside the tracer is traced, but not the tracer itself.
 */
#define TRACE_CTX_NORMAL 1u
#define TRACE_CTX_SOFTIRQ 2u
#define TRACE_CTX_IRQ 4u
#define TRACE_CTX_NMI 8u

#define OPTIMIZER_HIDE_VAR(var) __asm__("" : "+r"(var))

/* Modelled on trace_get_context_bit() in linux/trace_recursion.h. */
static inline __attribute__((always_inline)) u32 trace_context(void)
{
	u32 count = this_cpu->preempt_count;

	return 1u << (!!(count & NMI_MASK) + !!(count & (NMI_MASK | HARDIRQ_MASK)) +
		      !!(count & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET)));
}

/*
 * Begin a section that is not traced, with interrupts off, or return 0 if this context is
 * inside one. *recursion is the value to restore at its end.
 */
static inline __attribute__((always_inline)) int trace_recursion_start(u32 *recursion)
{
	u32 bit = trace_context();

	*recursion = this_cpu->trace_recursion;
	if (*recursion & bit)
		return 0;
	this_cpu->trace_recursion = *recursion | bit;
	return 1;
}

static inline __attribute__((always_inline)) void trace_recursion_end(u32 recursion)
{
	this_cpu->trace_recursion = recursion;
}

/*
 * A function whose straight-line code no NMI divides: a block ends at a branch or at the
 * end of a page, and an object of `size` bytes that is aligned to them is on one page. A
 * test compares the sizes.
 */
#define ON_ONE_PAGE(size) __attribute__((aligned(size)))

/*
 * Settings of the graph tracer, written by the host. `ops` selects functions. Functions
 * in `graph` are traced with all their callees; functions in `notrace` are left out
 * with all their callees. As in struct ftrace_ops_entry, an empty `graph` means all
 * functions and an empty `notrace` none.
 */
struct fgraph_control {
	u32 on;
	u32 max_depth;         /* maximum depth of nested functions, 0: unlimited */
	u32 skip_irqs;         /* leave out functions in hard interrupts */
	u32 sleep_off;         /* nonzero: exclude time off the CPU; a new value each time */
	u64 thresh;            /* minimum duration in ns; if set, only returns write events */
	u64 return_to_handler; /* address of its code */
	struct ftrace_ops_entry ops;
	u64 graph, graph_count;
	u64 notrace, notrace_count;
	u32 graph_off; /* for the profiler: exclude traced callees from a function's time */
	u32 slow_entry;  /* 0: each call of a site is traced */
	u32 slow_return; /* 0: each traced function's return is, however long it took */
	u32 unused;
};
extern struct fgraph_control fgraph;

#define FGRAPH_KRETPROBE 2u /* ftrace_ret_entry.told: a return probe follows the call */

/*
 * The function profiler: hits and times of each function, per CPU. Either the graph
 * tracer (`fgraph.on`) or the profiler uses `fgraph`, for the functions selected by
 * fgraph.ops.
 */
#define PROFILE_CPUS 8

struct ftrace_profile_control {
	u32 on;        /* number of the profiling run, or 0 if off */
	u32 bits;      /* each CPU's table has 1 << bits slots */
	u32 limit;     /* maximum number of functions in a table, less than its slots */
	u32 unused;
	u64 tables;    /* struct ftrace_profile arrays, CPU 0 first */
	u32 used[PROFILE_CPUS]; /* number of functions in each */
};
extern struct ftrace_profile_control fprofiler;

/* Profile of one function, in the first free slot at or after its hash. */
struct ftrace_profile {
	u64 ip; /* 0: the slot is free */
	u64 counter;
	u64 time; /* ns */
	u64 time_squared;
};

void profile_graph_entry(unsigned long *parent, unsigned long func, unsigned long frame_pointer);
void profile_graph_return(struct ftrace_ret_stack *stack, u64 rettime);

static inline __attribute__((always_inline)) struct ftrace_ret_stack *current_ret_stack(void)
{
	return (struct ftrace_ret_stack *)(unsigned long)this_cpu->ret_stack;
}

void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
			   unsigned long frame_pointer);
unsigned long ftrace_return_to_handler(unsigned long frame_pointer, unsigned long retval);

/*
 * The latency tracers. A critical section is a time with interrupts off (TRACER_IRQS_OFF),
 * with preemption off (TRACER_PREEMPT_OFF), or with either of them off.
 */
struct latency_control {
	u64 max_latency; /* ns; a section that takes longer is kept */
	u64 thresh;      /* ns; if not 0: keep each section that takes at least this */
	u64 sequence;    /* sections kept so far */
	u32 lock;        /* held while a section is kept */
	u32 unused;
};
extern struct latency_control latency;

#define LATENCY_CPUS 8
struct critical_section {
	u64 preempt_timestamp;
	u64 start;    /* address of the code that began it; 0 outside a section */
	u64 sequence; /* latency.sequence when it began */
	u32 tracing;  /* this CPU is in a section */
	u32 unused;
};
extern struct critical_section critical_sections[LATENCY_CPUS];

/* The section in the spare buffer, as the header of the trace describes it. */
struct max_trace_data {
	u64 saved_latency; /* ns */
	u64 time_start;    /* of the section, in the trace clock; earlier events are not its own */
	u64 critical_start, critical_end;
	u32 cpu;
	s32 pid;
	char comm[TASK_COMM_LEN];
	s32 nice;
	u32 policy, rt_priority;
	u32 unused;
};
extern struct max_trace_data max_trace;

/* The tracers wakeup and wakeup_rt: from the wakeup of the most urgent task until it runs. */
struct wakeup_control {
	u64 task;        /* that woke up and does not run yet, or 0 */
	u32 rt_only;     /* wakeup_rt; written by the host */
	u32 cpu;         /* where it woke up */
	u32 current_cpu; /* where it will run */
	s32 prio;        /* its priority */
};
extern struct wakeup_control wakeup;

int latency_begin(void);
void latency_end(void);
void latency_lock(void);
void latency_unlock(void);
int report_latency(u64 delta);
void update_max_tr(const struct task_fields *task, u32 cpu, u32 all);

void function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			 struct pt_regs *regs);
u64 ftrace_now(void);
void trace_function(unsigned long ip, unsigned long parent_ip, u32 irqs_off);
void trace_stack_from(unsigned long address, u32 irqs_off);

/* Write one TRACE_STACK event: the callers of the function with its call site at ip. */
void ftrace_trace_stack(unsigned long ip, u32 irqs_off);

extern u64 stack_trace_max_size; /* maximum in bytes over all tasks; written by the machine */
extern u32 tracer_frame; /* minimum bytes that the stack tracer adds to a stack; likewise */

int ftrace_lookup_ip(u64 array, u64 count, unsigned long ip);
int ftrace_ops_test(const struct ftrace_ops_entry *ops, unsigned long ip);

#define RING_BUFFER_DATA (RB_PAGE_SIZE - RB_PAGE_HEADER)
#define RINGBUF_TYPE_DATA_MAX 28u /* words in the header's type_len */
#define RINGBUF_TYPE_PADDING 29u
#define RINGBUF_TYPE_TIME_EXTEND 30u
#define RINGBUF_TYPE_TIME_STAMP 31u
#define RINGBUF_DELTA_BITS 27

/* In the guest's bit-field order: type_len is the first five bits. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RB_EVENT_HEADER(type_len, delta) ((u32)(type_len) | (u32)(delta) << 5)
#define RB_EVENT_TYPE_LEN(header) ((header) & 31)
#else
#define RB_EVENT_HEADER(type_len, delta) ((u32)(type_len) << 27 | (u32)(delta))
#define RB_EVENT_TYPE_LEN(header) ((header) >> 27)
#endif

#define barrier() __asm__ volatile("" ::: "memory")
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

void *ring_buffer_lock_reserve(unsigned long length);
void ring_buffer_unlock_commit(void);

/*
 * struct ftrace_entry in the buffer, where events are aligned to 4 bytes: some
 * architectures need other instructions to access a long there.
 */
typedef unsigned long event_address __attribute__((aligned(4)));
struct ftrace_event {
	struct trace_entry ent;
	event_address ip;
	event_address parent_ip;
};

/* The call chain, from the traced function outwards. */
struct stack_entry {
	struct trace_entry ent;
	s32 size;
	u8 pad[sizeof(long) - sizeof(s32)];
	event_address caller[];
};

/* Number of CPUs; written by the host before the guest runs. */
extern u32 nr_pt_regs;

/*
 * The event's first word: trace_entry's type, flags and preempt_count, computed
 * from the CPU's state as in the kernel. It is one word because in the emulator
 * a store costs as much as ten instructions.
 */
static inline __attribute__((always_inline)) u32 tracing_gen_ctx(u16 type, u32 irqs_off)
{
	u32 count = this_cpu->preempt_count, depth = count & PREEMPT_MASK;
	u32 migrate = this_cpu->migrate_disable;
	u32 flags;

	flags = (irqs_off ? TRACE_FLAG_IRQS_OFF : 0) |
		(count & NMI_MASK ? TRACE_FLAG_NMI : 0) |
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
