// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The function tracer of an instance, whose events go to its own buffers. Modelled on
 * function_trace_call() and function_stack_trace_call() in
 * kernel/trace/trace_functions.c.
 *
 * The host makes a struct trace_array and gives its address as `op`.
 */
#include "tracer.h"

/* Write one event of the current task, with interrupts off; return whether it was written. */
static int array_function(struct trace_array *tr, unsigned long ip, unsigned long parent_ip,
			  u32 irqs_off)
{
	volatile struct ring_buffer_cpu *buffer = array_buffer(tr);
	struct ftrace_event *entry;

	if (buffer->flags & RB_FUNCTION_OFF || ftrace_pid_ignored(tr->pids))
		return 0;
	entry = array_buffer_lock_reserve(buffer, sizeof(*entry));
	if (!entry)
		return 0;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_FN, irqs_off);
	entry->ent.pid = this_cpu->pid;
	entry->ip = ip;
	entry->parent_ip = parent_ip;
	array_buffer_unlock_commit(buffer);
	tracing_record_later(tr);
	return 1;
}

static inline __attribute__((always_inline)) void
array_call(unsigned long ip, unsigned long parent_ip, struct trace_array *tr, int stack)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion;

	cpu->irqs_disabled = 1;
	if (trace_recursion_start(&recursion)) {
		if (array_function(tr, ip, parent_ip, irqs_off) && stack)
			array_trace_stack(array_buffer(tr), ip, irqs_off);
		trace_recursion_end(recursion);
	}
	cpu->irqs_disabled = irqs_off;
}

/* `op` is a struct trace_array. */
void array_function_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
			       struct pt_regs *regs)
{
	array_call(ip, parent_ip, op, 0);
}

/* The option func_stack_trace: one event per call, followed by its stack trace. */
void array_function_stack_trace_call(unsigned long ip, unsigned long parent_ip, void *op,
				     struct pt_regs *regs)
{
	array_call(ip, parent_ip, op, 1);
}
