// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The function tracer and the counting tracer. Modelled on
 * kernel/trace/trace_functions.c.
 *
 * Interrupts stay off while a tracer runs. Otherwise an interrupt's calls would
 * look like recursion of the tracer, and a task preempted in here would leave
 * its CPU marked as tracing. NMIs may come in between: see ring_buffer.c.
 */
#include "ring_buffer.h"

#define FN_SIZE (4 + sizeof(struct ftrace_entry))

/* Write one event, with interrupts off; for function_trace_call: on a new page, after a
 * long pause, with another clock, or in an NMI inside the tracer. */
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

/* Written instead of an event in the buffer, if more work is needed: see ring_buffer.h. */
u32 unused_event[16];

/* A new page, the first event, a long pause, another clock, or an NMI inside a tracer. */
static __attribute__((noinline)) void function_trace_slow(unsigned long ip,
							  unsigned long parent_ip)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion;

	cpu->irqs_disabled = 1;
	if (!(cpu->buffer.flags & RB_FUNCTION_OFF) && trace_recursion_start(&recursion)) {
		trace_function(ip, parent_ip, irqs_off);
		trace_recursion_end(recursion);
	}
	cpu->irqs_disabled = irqs_off;
}

/* One event per call. The common case is written here, in one block. */
ON_ONE_PAGE(1024) void function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
					   struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 context = rb_plain_context(TRACE_FN, cpu->irqs_disabled);
	unsigned long unusual = rb_unusual(RB_FUNCTION_OFF);
	struct rb_event rb;

	cpu->irqs_disabled = 1;
	if (unlikely(rb_context(unusual))) {
		if (unusual) {
			cpu->irqs_disabled = rb_irqs_off(context);
			function_trace_slow(ip, parent_ip);
			return;
		}
		context = tracing_gen_ctx(TRACE_FN, rb_irqs_off(context));
	}
	barrier();
	rb_write(&rb, FN_SIZE, context);
	EVENT_STORE(*(event_address *)(rb.event + 3), ip);
	EVENT_STORE(*(event_address *)(rb.event + 3 + sizeof(long) / 4), parent_ip);
	cpu->irqs_disabled = rb_irqs_off(context);
	if (unlikely(!rb.keep))
		function_trace_slow(ip, parent_ip);
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
