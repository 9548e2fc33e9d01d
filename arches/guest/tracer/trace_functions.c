// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The function tracer, the counting tracer, and trace_marker. Modelled on
 * kernel/trace/trace_functions.c.
 *
 * Interrupts stay off while a tracer runs. Otherwise an interrupt's calls would
 * look like recursion of the tracer, and a task preempted in here would leave
 * its CPU marked as tracing.
 */
#include "tracer.h"

/* Keep several conditions as one number: the compiler would emit a branch for each. */
#define OPTIMIZER_HIDE_VAR(var) __asm__("" : "+r"(var))

/* Store two words of an event, at once if the architecture can. */
struct event_pair {
	u64 words;
} __attribute__((packed, aligned(4)));

static inline __attribute__((always_inline)) u64 word_pair(u32 first, u32 second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return first | (u64)second << 32;
#else
	return (u64)first << 32 | second;
#endif
}

#define FN_WORDS (sizeof(struct ftrace_entry) / 4)
#define FN_SIZE (4 + sizeof(struct ftrace_entry))

/* Slow path: a new page, a long pause, or another clock. */
static __attribute__((noinline)) void
function_trace_slow(unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	struct ftrace_event *entry = ring_buffer_lock_reserve(sizeof(*entry));

	if (!entry)
		return;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_FN, irqs_off);
	entry->ent.pid = this_cpu->pid;
	entry->ip = ip;
	entry->parent_ip = parent_ip;
	ring_buffer_unlock_commit(entry, sizeof(*entry));
}

/* One event of a latency tracer, with interrupts off and trace_recursion set. */
void trace_function(unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	function_trace_slow(ip, parent_ip, irqs_off);
}

/*
 * One event per call. The common case is written here in one block without a
 * branch: the emulator reads its clock once for each block.
 */
void function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			 struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion, flags, tail, rare, *event;
	unsigned char *page;
	u64 now, delta, commit;

	cpu->irqs_disabled = 1;
	/* Set before the first access to the buffer: the host then leaves it alone. */
	recursion = cpu->trace_recursion;
	cpu->trace_recursion = TRACE_RECURSION_EVENT;
	flags = cpu->buffer.flags;
	tail = cpu->buffer.tail_page;
	rare = recursion | (tail >= cpu->buffer.nr_pages) | !cpu->buffer.pages |
	       (~flags & RB_RECORD_ON);
	OPTIMIZER_HIDE_VAR(rare);
	if (unlikely(rare))
		goto out;
	page = (unsigned char *)(unsigned long)cpu->buffer.pages + (u64)tail * RB_PAGE_SIZE;
	now = this_clock->ticks;
	commit = *(u64 *)(page + 8);
	delta = now - cpu->buffer.write_stamp;
	rare = (commit - 1 >= RING_BUFFER_DATA - FN_SIZE) | (delta >> RINGBUF_DELTA_BITS != 0) |
	       (flags & RB_CLOCK_COUNTER);
	OPTIMIZER_HIDE_VAR(rare);
	if (unlikely(rare)) {
		function_trace_slow(ip, parent_ip, irqs_off);
		goto out;
	}
	cpu->buffer.write_stamp = now;
	event = (u32 *)(page + RB_PAGE_HEADER + commit);
	commit += FN_SIZE;
	*(event_address *)(event + 3 + sizeof(long) / 4) = parent_ip;
	*(event_address *)(event + 3) = ip;
	event[2] = cpu->pid;
	((struct event_pair *)event)->words =
		word_pair(RB_EVENT_HEADER(FN_WORDS, delta), tracing_gen_ctx(TRACE_FN, irqs_off));
	cpu->buffer.entries++;
	cpu->buffer.entries_bytes += FN_SIZE;
	*(volatile u64 *)(page + 8) = commit;
out:
	cpu->trace_recursion = recursion;
	cpu->irqs_disabled = irqs_off;
}

/* The option func_stack_trace: one event per call, followed by its stack trace. */
void function_stack_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			       struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled;

	cpu->irqs_disabled = 1;
	if (!cpu->trace_recursion) {
		cpu->trace_recursion = TRACE_RECURSION_EVENT;
		function_trace_slow(ip, parent_ip, irqs_off);
		ftrace_trace_stack(ip, irqs_off);
		cpu->trace_recursion = 0;
	}
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
	event_address ip;
	char buf[];
};

/* The longest text that fits into one page, with its NUL. */
#define PRINT_MAX (RING_BUFFER_DATA - 16 - sizeof(struct print_entry))

/* Write `text` to the trace for `ip`; return the bytes used, or -EBADF if tracing is off. */
long trace_array_puts(unsigned long ip, const char *text, unsigned long len)
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
		*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_PRINT, irqs_off);
		entry->ent.pid = this_cpu->pid;
		entry->ip = ip;
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

/* Called for writes to trace_marker. */
long tracing_mark_write(const char *text, unsigned long len)
{
	return trace_array_puts(FUNCTION_CODE(tracing_mark_write), text, len);
}
