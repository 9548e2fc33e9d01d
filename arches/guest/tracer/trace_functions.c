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

/* Keeps several conditions one number: the compiler would make a branch of each. */
#define OPTIMIZER_HIDE_VAR(var) __asm__("" : "+r"(var))

/* Two words of an event, stored at once where the architecture can. */
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

/* A new page, a long pause, another clock. */
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

/*
 * One event a call. The common case is written here in one stretch without a
 * branch: the emulator's clock is asked once for each stretch.
 */
void function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			 struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion, flags, tail, rare, *event;
	unsigned char *page;
	u64 now, delta, commit;

	cpu->irqs_disabled = 1;
	/* Before the first look at the buffer: from here on the host lets it be. */
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

/* The option func_stack_trace: one event a call, and behind it the way there. */
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

/* The longest text that fits into a page of its own, with its NUL. */
#define PRINT_MAX (RING_BUFFER_DATA - 16 - sizeof(struct print_entry))

/* Write `text` into the trace, said by `ip`; the bytes taken, or -EBADF when nothing records. */
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

/* What is written to trace_marker. */
long tracing_mark_write(const char *text, unsigned long len)
{
	return trace_array_puts(FUNCTION_CODE(tracing_mark_write), text, len);
}
