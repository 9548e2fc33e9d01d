/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between the machine and its guest, on every architecture.
 *
 * At one fixed address (CPU_LOCAL, a build flag of each port) every vCPU sees
 * two pages of its own. The first holds the CPU's clock and is read-only: the
 * machine advances it by one nanosecond for each byte of executed code. The
 * second is `struct cpu_local`. No per-CPU register is needed, so this works
 * the same on every port. core/abi.py describes the layout to the host, and a
 * test compares the two through the image's debug information.
 *
 * All addresses are 64 bits wide, even on 32-bit ports, so that there is only
 * one layout. Fields are in the guest's byte order.
 */
#ifndef MACHINE_H
#define MACHINE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64 __attribute__((aligned(8)));
typedef long long s64 __attribute__((aligned(8)));

#define LOCAL_PAGE_SIZE 4096

struct cpu_clock {
	u64 ticks;    /* virtual nanoseconds since this CPU started */
	u64 deadline; /* the slice ends at the first block that starts at or after this time */
};

/*
 * A per-CPU ring buffer: sub-buffers of one page in the kernel's format.
 *
 * The writer fills an event before it adds it to the page's commit word. A new
 * page gets commit 0 and its time stamp before tail_page refers to it. If the
 * page after the tail is the head, the writer first advances the head: it adds
 * the head's events from `read` on to overrun, increments head_page and sets
 * `read` to 0. The host changes head_page, read and `pages` only while
 * trace_recursion is 0 on every CPU.
 *
 * An NMI may write events between another event's reserve and its commit. They come after
 * that event, and are invisible until it is committed. Until then `write` is not 0, and
 * tail_page stays at the page of the first event that is not committed.
 */
#define RB_PAGE_SIZE 4096
#define RB_PAGE_HEADER 16 /* u64 time stamp, u64 commit */

#define RB_RECORD_ON (1u << 0) /* tracing_on: events are written */
#define RB_OVERWRITE (1u << 1) /* if full: overwrite the oldest page, else drop new events */
#define RB_CLOCK_COUNTER (1u << 2) /* time stamps are not those of this CPU: they count events
				    * on all CPUs, unless RB_CLOCK_GLOBAL or _JIFFIES is set */
#define RB_RECORD_CMD (1u << 3) /* an enabled tracer or event records names of tasks */
#define RB_FUNCTION_OFF (1u << 4) /* the function tracer has stopped, but its sites are patched */
#define RB_CLOCK_GLOBAL (1u << 5) /* nanoseconds that never decrease from one CPU to another */
#define RB_RECORD_TGID (1u << 7) /* an event is on, and the thread groups of tasks are wanted */
#define RB_CLOCK_JIFFIES (1u << 6) /* ticks since the kernel started */

struct ring_buffer_cpu {
	u64 pages;         /* guest address of sub-buffer 0, or 0 until allocated */
	u32 nr_pages;      /* sub-buffers, consecutive in memory */
	u32 flags;         /* RB_* */
	u32 head_page;     /* sub-buffer the reader takes first */
	u32 tail_page;     /* sub-buffer being written, the last one that a reader may see */
	u32 read;          /* bytes of head_page's data the host has consumed */
	u32 write;         /* end of the reserved bytes of write_page, or 0 if all are committed */
	u64 write_stamp;   /* time of the last event written, ns */
	u64 entries;       /* events written, including lost ones */
	u64 overrun;       /* events lost because a page was overwritten */
	u64 dropped;       /* events not written because the buffer was full */
	u64 commit_overrun; /* events of NMIs not written: the buffer is full of uncommitted ones */
	u64 read_events;   /* events the host has consumed; kept by the host */
	u32 write_page;    /* while `write` is not 0: sub-buffer of the last reservation */
	u32 commit_end;    /* while `write` is not 0: end of the reserved bytes of tail_page */
	u32 committing;    /* reservations in progress, one in each context */
	u32 named;         /* low half of `entries` when names were last recorded */
};

/* Bytes of a task's stack; the stack is aligned to this size. */
#define THREAD_SIZE 16384

/* Bits of preempt_count, in the kernel's layout. */
#define PREEMPT_MASK 0x000000ffu
#define SOFTIRQ_OFFSET 0x00000100u
#define SOFTIRQ_MASK 0x0000ff00u
#define HARDIRQ_OFFSET 0x00010000u
#define HARDIRQ_MASK 0x000f0000u
#define NMI_OFFSET 0x00100000u
#define NMI_MASK 0x00f00000u

/* Bits of trace_type. */
#define TRACER_IRQS_OFF (1u << 1)
#define TRACER_PREEMPT_OFF (1u << 2)

struct cpu_local {
	u32 stop_request;   /* 0x00 nonzero: end the slice before the next block */
	u32 cpu;            /* 0x04 number of this vCPU */
	u32 nr_cpus;        /* 0x08 number of vCPUs */
	u32 irqs_disabled;  /* 0x0c 1: the machine delivers no interrupt here */
	u32 preempt_count;  /* 0x10 */
	u16 need_resched;   /* 0x14 */
	u16 migrate_disable; /* 0x16 depth */
	u64 current_task;   /* 0x18 struct task_struct */
	s32 pid;            /* 0x20 of current_task, for the tracer */
	u32 trace_recursion; /* 0x24 contexts in which the tracer runs on this CPU, or 0 */

	/* The hypercall: see hypercall() below. */
	u32 call;           /* 0x28 HC_*, or 0 if none is pending */
	u32 trace_type;     /* 0x2c TRACER_*: the latencies that are traced; 0: none */
	u64 call_arg[4];    /* 0x30 */
	u64 call_result;    /* 0x50 */

	u64 local_unused;    /* 0x58 */
	u64 scratch[2];      /* 0x60 free for use by the guest */
	u64 nmi_stack;       /* 0x70 end of this CPU's stack for NMIs; 0: none is delivered yet */
	u64 ret_stack;       /* 0x78 struct ftrace_ret_stack of current_task */

	struct ring_buffer_cpu buffer; /* 0x80 */
};

#define this_clock ((const volatile struct cpu_clock *)(CPU_LOCAL))
#define this_cpu ((volatile struct cpu_local *)((CPU_LOCAL) + LOCAL_PAGE_SIZE))

/* Hypercalls: arguments and result. */
#define HC_PRINTK 1       /* (address, length): one line for dmesg */
#define HC_IDLE 2         /* (): sleep until an interrupt is pending for this CPU */
#define HC_CPU_UP 3       /* (cpu, entry, stack, task): start a vCPU at entry(task); 0 or -errno */
#define HC_IRET 4         /* (pt_regs): load all registers from it, interrupts on; does not return */
#define HC_SEND_IPI 5     /* (cpu, vector) */
#define HC_REQUEST_DONE 6 /* (sequence number, result): see struct host_request */
#define HC_PANIC 7        /* (address, length): does not return */
#define HC_FTRACE_INIT 8  /* (): disable all call sites; with ftraced, make mcount call
			   * ftrace_record_ip. 0 or -errno */
#define HC_GRAPH_STOP 12  /* (expected, received, function, return address): does not return */
#define HC_TRACE_CONTROL 13 /* (struct func_probe, ip, parent_ip): do its command; ip 0: stop tracing */
#define HC_TRACE_STACK 14 /* (u64 array, its size, ip or 0): callers of the site; their number;
			   * (u64 array, its size, address, 1): that return address, its callers */
#define HC_STACK_MAX 15   /* (bytes of the task's stack in use, ip): a new maximum at a site */
#define HC_UPDATE_MAX_TR 20 /* (all): swap the buffer of this CPU, or of all, with the spare one */
#define HC_NMI_RETURN 21  /* (pt_regs): leave an NMI; does not return */
#define HC_TEXT_POKE 22   /* (): text may be written now; TEXT_POKE_*: what to do next */
#define HC_SYNC_CORE 23   /* (): execute no older text on this CPU from now on */
#define HC_TRAP_RETURN 26 /* (pt_regs): leave an exception; does not return */
#define HC_PID_FOLLOW 25  /* (pid, parent): the parent has forked it; parent 0: it has ended */
#define HC_FTRACE_UPDATED 24 /* (sequence number): see struct ftrace_update */

/* Interrupt vectors. The machine calls
 *   void common_interrupt(struct pt_regs *regs, unsigned long vector)
 * on the interrupted stack, below a pt_regs in the port's order (one long per
 * register), with interrupts off. It ends with HC_IRET and never returns. */
#define NMI_STACK_SIZE 8192

/*
 * An NMI comes at any block, even while interrupts are off, but not inside another NMI. The
 * machine calls
 *   void common_nmi(struct pt_regs *regs)
 * below a pt_regs at the end of `nmi_stack`, with interrupts off. It ends with HC_NMI_RETURN
 * and never returns. The machine keeps irqs_disabled and the words of a hypercall meanwhile.
 */
#define VECTOR_TIMER 0      /* the periodic tick, every TICK_NS of this CPU's time */
#define VECTOR_RESCHEDULE 1 /* another CPU set need_resched here */
#define VECTOR_REQUEST 2    /* CPU 0 only: `host_request` holds new work */
#define VECTOR_DEVICE 3     /* a device line, raised by a workload through HC_SEND_IPI */
#define VECTOR_CALL_FUNCTION 4 /* another CPU wants a function called here */
#define VECTOR_UPDATE 5     /* CPU 0 only: `ftrace_update` holds a change of text */
#define VECTOR_IRQ_WORK 6   /* this CPU has work for an interrupt (process/irq_work.c) */

#define TICK_NS 1000000

/* The first fields of a task, which the tracers use. */
#define TASK_COMM_LEN 16
#define TASK_FIELDS                                                             \
	unsigned long sp; /* saved stack pointer; must be first, for switch.S */ \
	void *stack;      /* must be second, for the stack tracer */            \
	int pid;                                                                \
	char comm[TASK_COMM_LEN];                                               \
	volatile unsigned int state;                                            \
	int cpu;                                                                \
	int prio;         /* 0-99: real-time; lower numbers run first */        \
	int static_prio;  /* 120 + nice */                                      \
	unsigned int policy;                                                    \
	unsigned int rt_priority

struct task_fields {
	TASK_FIELDS;
};

/* A request to the guest: the machine fills the kernel's symbol `host_request`,
 * raises VECTOR_REQUEST on CPU 0, and runs until the guest answers with
 * HC_REQUEST_DONE. Each request has its own task, so the function that it
 * calls may sleep. */
#define REQUEST_CALL 1     /* result = function(argument...) in a task named comm */
#define REQUEST_WORKLOAD 2 /* run `count` rounds of the workload `name` */

struct host_request {
	u32 sequence;  /* changes with each request; 0 before the first */
	u32 kind;      /* REQUEST_* */
	u64 function;  /* address, as the ABI calls it */
	u64 argument[6];
	u64 count;
	char comm[16];
	char name[32]; /* of the workload */
};

/*
 * A change of text that the console asks for. The machine fills the kernel's symbol
 * `ftrace_update`, raises VECTOR_UPDATE on CPU 0, and runs. The kernel brings the CPUs to a point
 * at which text may be written, and makes HC_TEXT_POKE; the machine writes. At the end, the kernel
 * answers with HC_FTRACE_UPDATED.
 */
#define UPDATE_STOP_MACHINE 1 /* all CPUs are stopped while text is written */
#define UPDATE_BREAKPOINT 2   /* CPUs run, and execute sync_core() between the steps */

struct ftrace_update {
	u32 sequence; /* changes with each request; 0 before the first */
	u32 method;   /* UPDATE_* */
	u32 wakeups;  /* changes each time the machine raises VECTOR_UPDATE */
	u32 task;     /* pid of the task that makes these changes; 0 before it waits for them */
};

/* Answers to HC_TEXT_POKE. */
#define TEXT_POKE_DONE 0 /* everything is written */
#define TEXT_POKE_SYNC 1 /* have each CPU execute sync_core(), then call again */
#define TEXT_POKE_WAIT 2 /* sleep until VECTOR_UPDATE, then call again */

/* The state of stop_machine(): the kernel's symbol `stop_machine_data`. */
#define MULTI_STOP_NONE 0
#define MULTI_STOP_PREPARE 1     /* CPUs enter multi_cpu_stop() */
#define MULTI_STOP_DISABLE_IRQ 2 /* they disable interrupts */
#define MULTI_STOP_RUN 3         /* one of them writes text */
#define MULTI_STOP_EXIT 4

struct multi_stop_data {
	u32 state;
	u32 thread_ack;  /* CPUs that have not acknowledged the state yet */
	u32 num_threads;
	u32 active_cpu;  /* number of the CPU that writes */
	int (*fn)(void *data);
	void *data;
};

/* Names and thread groups of tasks for the trace. The kernel's symbol `savedcmd` points to the
 * table, which the host may replace. Unused entries have pid 0. With RB_RECORD_CMD or
 * RB_RECORD_TGID, the first switch after an event records both tasks. */
#define SAVED_CMDLINES 128 /* entries of the table at first */
struct saved_cmdline {
	s32 pid;
	s32 tgid; /* 0: not recorded */
	char comm[16]; /* empty: not recorded */
};

struct saved_cmdlines_buffer {
	u32 cmdline_num; /* entries in use */
	u32 unused;
	struct saved_cmdline cmdlines[];
};

/* Events in the ring buffer, after the u32 header. */
#define TRACE_FN 1
#define TRACE_CTX 2  /* struct ctx_switch_entry: a task switch */
#define TRACE_WAKE 3 /* the same layout: a wakeup */
#define TRACE_STACK 4
#define TRACE_GRAPH_RET 10
#define TRACE_GRAPH_ENT 11
#define TRACE_BPRINT 6 /* trace_printk: ip, address of the format, packed arguments */
#define TRACE_BPUTS 14 /* trace_printk: ip, address of the text */
#define TRACE_PRINT 5 /* tracing_mark_write: ip, then text with its NUL */
#define TRACE_RAW_DATA 18 /* tracing_mark_raw_write: u32 id, then bytes */

#define TRACE_FLAG_IRQS_OFF 0x01
#define TRACE_FLAG_NEED_RESCHED 0x04
#define TRACE_FLAG_HARDIRQ 0x08
#define TRACE_FLAG_SOFTIRQ 0x10
#define TRACE_FLAG_NMI 0x40
#define TRACE_FLAG_BH_OFF 0x80

struct trace_entry {
	u16 type;
	u8 flags;
	u8 preempt_count; /* low nibble preemption depth, high nibble migrate-disable depth */
	s32 pid;
};

struct ftrace_entry {
	struct trace_entry ent;
	unsigned long ip;
	unsigned long parent_ip;
};

struct ctx_switch_entry {
	struct trace_entry ent;
	u32 prev_pid; /* the running task */
	u32 next_pid; /* the task that runs next or wakes up */
	u32 next_cpu;
	u8 prev_prio, prev_state, next_prio, next_state; /* states as numbers of "RSDTtXZPI" */
};

struct ftrace_graph_ent_entry {
	struct trace_entry ent;
	unsigned long func;
	s32 depth;
} __attribute__((packed, aligned(4)));

struct ftrace_graph_ret_entry {
	struct trace_entry ent;
	unsigned long func;
	unsigned long retval;
	s32 depth;
	u32 overrun;
	u64 calltime;
	u64 rettime;
} __attribute__((packed, aligned(4)));

/*
 * The functions of one task that will return through return_to_handler, the
 * innermost last. All zeros mean none. A kernel that switches tasks gives each
 * task its own and puts its address in cpu_local.ret_stack.
 */
#define FTRACE_RETFUNC_DEPTH 50

struct ftrace_ret_stack {
	u32 index;          /* entries in use */
	u32 depth;          /* entries of functions that are traced */
	u32 overrun;        /* functions not traced because all entries were in use */
	u32 graph_depth;    /* 1 + depth of a function in set_graph_function, or 0 */
	u32 notrace_index;  /* 1 + index of a function in set_graph_notrace, or 0 */
	u32 graph_in_irq;   /* that function is part of a hard interrupt */
	u32 slept;          /* fgraph_control.sleep_off when timestamp was set */
	u32 unused;
	u64 timestamp;      /* when the task was last switched out */
	struct ftrace_ret_entry {
		unsigned long ret;  /* the real return address */
		unsigned long func;
		unsigned long fp;
		u32 told;           /* 1: the return writes an event; or FGRAPH_KRETPROBE */
		u32 profiled;       /* profiling run that counted it, or 0; unused if told */
		u64 calltime;
		u64 subtime;        /* ns spent in callees, if profiled */
		u64 probe;          /* struct trace_probe, if told is FGRAPH_KRETPROBE */
	} stack[FTRACE_RETFUNC_DEPTH];
};

/*
 * Call the machine. The store to stop_request ends the slice before the next
 * block, which is the loop below. The machine executes `call`, clears it and
 * resumes the guest.
 */
static inline __attribute__((always_inline, no_instrument_function)) u64
hypercall(u32 nr, u64 a, u64 b, u64 c, u64 d)
{
	this_cpu->call_arg[0] = a;
	this_cpu->call_arg[1] = b;
	this_cpu->call_arg[2] = c;
	this_cpu->call_arg[3] = d;
	this_cpu->call = nr;
	this_cpu->stop_request = 1;
	while (this_cpu->call)
		;
	return this_cpu->call_result;
}

/* Address of a function's code. On PowerPC ELFv1 a function pointer points to a
 * descriptor, whose first word is that address. */
#if defined(_CALL_ELF) && _CALL_ELF == 1
#define FUNCTION_CODE(function) (*(const unsigned long *)(function))
#else
#define FUNCTION_CODE(function) ((unsigned long)(function))
#endif

/* Address of the call site in the function whose code is at `code`, and bytes that are
 * not a valid instruction, to overwrite the site with. */
#ifdef __mips__
#define CALL_SITE(code)                                                         \
	({                                                                      \
		const u32 *insn_ = (const u32 *)(code);                         \
		while (*insn_++ != 0x03e00825) /* move at, ra */                \
			;                                                       \
		(unsigned long)insn_;                                           \
	})
#elif defined(__aarch64__) && !defined(CC_USING_PATCHABLE_FUNCTION_ENTRY)
#define CALL_SITE(code)                                                         \
	({                                                                      \
		const u32 *insn_ = (const u32 *)(code);                         \
		while (*insn_ != 0xaa1e03e0) /* mov x0, x30 */                  \
			insn_++;                                                \
		while (*insn_ != 0xd503201f && *insn_ >> 26 != 0x25)            \
			insn_++; /* up to a nop or a bl */                         \
		(unsigned long)insn_;                                           \
	})
#elif defined(CONFIG_FTRACED) /* after pushes and `sub rsp`: a call, a nop or a jmp */
#define CALL_SITE(code)                                                         \
	({                                                                      \
		const u8 *insn_ = (const u8 *)(code);                           \
		while (insn_[0] != 0xe8 && (insn_[0] != 0x0f || insn_[1] != 0x1f) && \
		       (insn_[0] != 0xeb || insn_[1] != 0x03))                  \
			insn_++;                                                \
		(unsigned long)insn_;                                           \
	})
#elif defined(__aarch64__) /* the second nop */
#define CALL_SITE(code) ((code) + 4)
#else
#define CALL_SITE(code) (code)
#endif
#ifdef __mips__
#define NO_INSTRUCTION { 0xec, 0xec, 0xec, 0xec } /* invalid before release 6 */
#elif defined(__aarch64__)
#define NO_INSTRUCTION { 0x00, 0x00, 0x00, 0x00 } /* udf #0 */
#else
#define NO_INSTRUCTION { 0xf0, 0x0f, 0xc7, 0xc8, 0xcc } /* the old `lock cmpxchg8b` bug */
#endif

/* Attribute for a function without a call site. */
#ifdef CC_USING_PATCHABLE_FUNCTION_ENTRY
#define NO_CALL_SITE __attribute__((patchable_function_entry(0)))
#else
#define NO_CALL_SITE __attribute__((no_instrument_function))
#endif

/* Executed before the return from an interrupt, to clear the exclusive monitor. A real
 * processor does this on every return from an exception (DDI 0487, exclusive monitors). */
#ifdef __aarch64__
#define forget_exclusive() ({ __asm__ volatile("clrex" ::: "memory"); })
#else
#define forget_exclusive()
#endif

/* Hypercalls of kernels that find their call sites when they run (ftraced.h): */
#define HC_FTRACE_UPDATE 9 /* (): turn the sites found into nops; their number, or -errno */

#endif
