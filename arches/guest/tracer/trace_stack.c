// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The way to a traced function, as an event. In miniature of __ftrace_trace_stack()
 * in kernel/trace/trace.c; that one unwinds the stack here, this one leaves it to the
 * machine, which knows where calls stand in the code.
 */
#include "tracer.h"

#define TRACE_STACK_CPUS 8
#define FTRACE_STACK_ENTRIES 64

static u64 ftrace_stacks[TRACE_STACK_CPUS][FTRACE_STACK_ENTRIES];

/*
 * Called by a tracer: what is told begins at the function whose call site called it,
 * that at `ip`; 0 leaves it to the machine to find out which that is.
 */
void ftrace_trace_stack(unsigned long ip, u32 irqs_off)
{
	volatile struct cpu_local *cpu = this_cpu;
	const u64 *calls = ftrace_stacks[cpu->cpu % TRACE_STACK_CPUS];
	u32 was_off = cpu->irqs_disabled, recursion = cpu->trace_recursion, count;
	struct stack_entry *entry;
	unsigned long size;

	cpu->irqs_disabled = 1;
	cpu->trace_recursion = TRACE_RECURSION_EVENT;
	if (!(cpu->buffer.flags & RB_RECORD_ON))
		goto out;
	count = hypercall(HC_TRACE_STACK, (unsigned long)calls, FTRACE_STACK_ENTRIES, ip, 0);
	if (count > FTRACE_STACK_ENTRIES)
		goto out;
	size = sizeof(*entry) + count * sizeof(long);
	entry = ring_buffer_lock_reserve(size);
	if (!entry)
		goto out;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_STACK, irqs_off);
	entry->ent.pid = cpu->pid;
	entry->size = count;
	for (unsigned long n = 0; n != sizeof(entry->pad); n++)
		entry->pad[n] = 0;
	for (u32 n = 0; n < count; n++)
		entry->caller[n] = ((const volatile u64 *)calls)[n];
	ring_buffer_unlock_commit(entry, size);
out:
	cpu->trace_recursion = recursion;
	cpu->irqs_disabled = was_off;
}

void __trace_stack(u32 irqs_off)
{
	ftrace_trace_stack(0, irqs_off);
}
