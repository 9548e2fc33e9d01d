// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The function tracer, its counting cousin, and the marker. In miniature of
 * kernel/trace/trace_functions.c.
 *
 * Interrupts stay off while a tracer runs: an interrupt's own calls could not
 * be told from the tracer calling itself, and a task preempted in here would
 * leave its CPU marked as tracing.
 */
#include "tracer.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* The event's common part, as the kernel makes it from preempt_count and flags. */
static inline __attribute__((always_inline)) void
tracing_generic_entry_update(struct trace_entry *ent, u16 type, u32 irqs_off)
{
	u32 count = this_cpu->preempt_count, depth = count & PREEMPT_MASK;
	u32 migrate = this_cpu->migrate_disable;

	ent->type = type;
	ent->flags = (irqs_off ? TRACE_FLAG_IRQS_OFF : 0) |
		     (this_cpu->need_resched ? TRACE_FLAG_NEED_RESCHED : 0) |
		     (count & HARDIRQ_MASK ? TRACE_FLAG_HARDIRQ : 0) |
		     (count & SOFTIRQ_OFFSET ? TRACE_FLAG_SOFTIRQ : 0) |
		     (count & SOFTIRQ_MASK & ~SOFTIRQ_OFFSET ? TRACE_FLAG_BH_OFF : 0);
	ent->preempt_count = (depth < 15 ? depth : 15) | (migrate < 15 ? migrate : 15) << 4;
	ent->pid = this_cpu->pid;
}

#define FN_WORDS (sizeof(struct ftrace_entry) / 4)
#define FN_SIZE (4 + sizeof(struct ftrace_entry))

static inline __attribute__((always_inline)) void
fill_fn(struct ftrace_entry *entry, unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	tracing_generic_entry_update(&entry->ent, TRACE_FN, irqs_off);
	entry->ip = ip;
	entry->parent_ip = parent_ip;
}

/* A new page, a long pause, another clock. */
static __attribute__((noinline)) void
function_trace_slow(unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	struct ftrace_entry *entry = ring_buffer_lock_reserve(sizeof(*entry));

	if (!entry)
		return;
	fill_fn(entry, ip, parent_ip, irqs_off);
	ring_buffer_unlock_commit(entry, sizeof(*entry));
}

/*
 * One event a call. The common case is written here in one stretch without a
 * branch: the emulator's clock is asked once for each stretch.
 */
void function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			 struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled;
	unsigned char *page;
	u64 now, delta, commit;

	cpu->irqs_disabled = 1;
	if (unlikely((cpu->trace_recursion != 0) |
		     (cpu->buffer.tail_page >= cpu->buffer.nr_pages) |
		     (cpu->buffer.pages == 0) | ((cpu->buffer.flags & RB_RECORD_ON) == 0))) {
		cpu->irqs_disabled = irqs_off;
		return;
	}
	cpu->trace_recursion = TRACE_RECURSION_EVENT;
	page = (unsigned char *)(unsigned long)(cpu->buffer.pages +
						(u64)cpu->buffer.tail_page * RB_PAGE_SIZE);
	now = this_clock->ticks;
	commit = *(u64 *)(page + 8);
	delta = now - cpu->buffer.write_stamp;
	if (unlikely((commit - 1 >= RING_BUFFER_DATA - FN_SIZE) |
		     (delta >> RINGBUF_DELTA_BITS != 0) |
		     ((cpu->buffer.flags & RB_CLOCK_COUNTER) != 0))) {
		function_trace_slow(ip, parent_ip, irqs_off);
	} else {
		u32 *event = (u32 *)(page + RB_PAGE_HEADER + commit);

		*event = RB_EVENT_HEADER(FN_WORDS, delta);
		fill_fn((struct ftrace_entry *)(event + 1), ip, parent_ip, irqs_off);
		cpu->buffer.write_stamp = now;
		cpu->buffer.entries++;
		cpu->buffer.entries_bytes += FN_SIZE;
		*(volatile u64 *)(page + 8) = commit + FN_SIZE;
	}
	cpu->trace_recursion = 0;
	cpu->irqs_disabled = irqs_off;
}

u64 function_count[FUNCTION_COUNT_CPUS];

void function_count_call(unsigned long ip, unsigned long parent_ip, void *op,
			 struct pt_regs *regs)
{
	u32 irqs_off = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	function_count[this_cpu->cpu % FUNCTION_COUNT_CPUS]++;
	this_cpu->irqs_disabled = irqs_off;
}

struct print_entry {
	struct trace_entry ent;
	unsigned long ip;
	char buf[];
};

/* The longest text that fits into a page of its own, with its NUL. */
#define PRINT_MAX (RING_BUFFER_DATA - 16 - sizeof(struct print_entry))

/* Write `text` into the trace; the bytes taken, or -EBADF when nothing records. */
long tracing_mark_write(const char *text, unsigned long len)
{
	u32 irqs_off = this_cpu->irqs_disabled;
	struct print_entry *entry;
	unsigned long n, size;

	if (len > PRINT_MAX - 4)
		len = PRINT_MAX - 4;
	size = (sizeof(*entry) + len + 1 + 3) & ~3ul;
	this_cpu->irqs_disabled = 1;
	this_cpu->trace_recursion = TRACE_RECURSION_EVENT;
	entry = ring_buffer_lock_reserve(size);
	if (entry) {
		tracing_generic_entry_update(&entry->ent, TRACE_PRINT, irqs_off);
		entry->ip = (unsigned long)tracing_mark_write;
		for (n = 0; n < len; n++)
			entry->buf[n] = text[n];
		for (; n < size - sizeof(*entry); n++)
			entry->buf[n] = 0;
		ring_buffer_unlock_commit(entry, size);
	}
	this_cpu->trace_recursion = 0;
	this_cpu->irqs_disabled = irqs_off;
	return entry ? (long)len : -9;
}
