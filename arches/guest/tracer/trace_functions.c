// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The function tracer and the counting tracer. Modelled on
 * kernel/trace/trace_functions.c.
 *
 * Interrupts stay off while a tracer runs. Otherwise an interrupt's calls would
 * look like recursion of the tracer, and a task preempted in here would leave
 * its CPU marked as tracing. NMIs may come in between: see ring_buffer.c.
 */
#include "tracer.h"

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

/* One event, with interrupts off; for function_trace_call: a new page, a long pause,
 * another clock, or an NMI inside the tracer. */
__attribute__((noinline)) void trace_function(unsigned long ip, unsigned long parent_ip,
					      u32 irqs_off)
{
	struct ftrace_event *entry = ring_buffer_lock_reserve(sizeof(*entry));

	if (!entry)
		return;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_FN, irqs_off);
	entry->ent.pid = this_cpu->pid;
	entry->ip = ip;
	entry->parent_ip = parent_ip;
	ring_buffer_unlock_commit();
}

/* Written instead, if the common case does not apply. */
static struct ring_buffer_cpu unused_buffer;
static u64 unused_page[RB_PAGE_SIZE / 8];

/* All ones if `condition` is not 0, else 0. */
static inline __attribute__((always_inline)) unsigned long all_ones(u32 condition)
{
	unsigned long mask = -(unsigned long)((condition | -condition) >> 31);

	OPTIMIZER_HIDE_VAR(mask);
	return mask;
}

/*
 * One event per call. The common case is written here in one block without a
 * branch: the emulator reads its clock once for each block, and no NMI divides it.
 * In other cases this block writes elsewhere.
 */
ON_ONE_PAGE(1024) void function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
					   struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion, flags, tail, rare, *event;
	unsigned long page, other = (unsigned long)unused_page, buffer;
	u64 now, delta, commit;
	u32 context;

	cpu->irqs_disabled = 1;
	/* Set before the first access to the buffer: the host then leaves it alone. */
	recursion = cpu->trace_recursion;
	cpu->trace_recursion = TRACE_FAST;
	context = tracing_gen_ctx(TRACE_FN, irqs_off);
	/* It may have branches, which stay before the accesses to the buffer. */
	__asm__ volatile("" : "+r"(context) : : "memory");
	flags = cpu->buffer.flags;
	tail = cpu->buffer.tail_page;
	rare = recursion | (tail >= cpu->buffer.nr_pages) | !cpu->buffer.pages |
	       (~flags & RB_RECORD_ON) | (flags & (RB_CLOCK_COUNTER | RB_FUNCTION_OFF));
	page = (unsigned long)cpu->buffer.pages + (unsigned long)tail * RB_PAGE_SIZE;
	page ^= (page ^ other) & all_ones(rare);
	now = this_clock->ticks;
	commit = *(volatile u64 *)(page + 8);
	delta = now - cpu->buffer.write_stamp;
	rare |= (u32)(commit >> 32) | ((u32)commit - 1 >= RING_BUFFER_DATA - FN_SIZE) |
		(u32)(delta >> RINGBUF_DELTA_BITS);
	{
		unsigned long mask = all_ones(rare);

		page ^= (page ^ other) & mask;
		commit = (u32)commit & ~(u32)mask;
		buffer = (unsigned long)&cpu->buffer;
		buffer ^= (buffer ^ (unsigned long)&unused_buffer) & mask;
	}
	event = (u32 *)(page + RB_PAGE_HEADER + (unsigned long)commit);
	commit += FN_SIZE;
	*(event_address *)(event + 3 + sizeof(long) / 4) = parent_ip;
	*(event_address *)(event + 3) = ip;
	event[2] = cpu->pid;
	((struct event_pair *)event)->words =
		word_pair(RB_EVENT_HEADER(FN_WORDS, delta), context);
	((struct ring_buffer_cpu *)buffer)->write_stamp = now;
	((struct ring_buffer_cpu *)buffer)->entries++;
	((struct ring_buffer_cpu *)buffer)->entries_bytes += FN_SIZE;
	*(volatile u64 *)(page + 8) = commit;
	if (unlikely(rare)) {
		cpu->trace_recursion = recursion;
		if (!(flags & RB_FUNCTION_OFF) && trace_recursion_start(&recursion))
			trace_function(ip, parent_ip, irqs_off);
	}
	cpu->trace_recursion = recursion;
	cpu->irqs_disabled = irqs_off;
}

/* The option func_stack_trace: one event per call, followed by its stack trace. */
void function_stack_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			       struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion;

	cpu->irqs_disabled = 1;
	if (!(cpu->buffer.flags & RB_FUNCTION_OFF) && trace_recursion_start(&recursion)) {
		trace_function(ip, parent_ip, irqs_off);
		ftrace_trace_stack(ip, irqs_off);
		trace_recursion_end(recursion);
	}
	cpu->irqs_disabled = irqs_off;
}

u64 function_count[FUNCTION_COUNT_CPUS];

ON_ONE_PAGE(256) void function_count_call(unsigned long ip, unsigned long parent_ip, void *op,
					  struct pt_regs *regs)
{
	u32 irqs_off = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	function_count[this_cpu->cpu % FUNCTION_COUNT_CPUS]++;
	this_cpu->irqs_disabled = irqs_off;
}
