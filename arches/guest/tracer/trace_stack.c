// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stack trace events, and the stack tracer, which keeps the deepest stack. Modelled on
 * __ftrace_trace_stack() in kernel/trace/trace.c and on kernel/trace/trace_stack.c.
 * The kernel unwinds the stack here; this tracer leaves that to the machine, which knows
 * where the code has calls.
 */
#include "tracer.h"

#define TRACE_STACK_CPUS 8
#define FTRACE_STACK_ENTRIES 64

/* The second is for NMIs, which may come while the first is in use. */
static u64 ftrace_stacks[TRACE_STACK_CPUS][2][FTRACE_STACK_ENTRIES];

static void __ftrace_trace_stack(volatile struct ring_buffer_cpu *buffer, unsigned long from,
				 u32 is_return, u32 irqs_off)
{
	volatile struct cpu_local *cpu = this_cpu;
	const u64 *calls =
		ftrace_stacks[cpu->cpu % TRACE_STACK_CPUS][trace_context() == TRACE_CTX_NMI];
	u32 was_off = cpu->irqs_disabled, recursion = cpu->trace_recursion, count;
	struct stack_entry *entry;
	unsigned long size;

	cpu->irqs_disabled = 1;
	cpu->trace_recursion = recursion | trace_context();
	if (!(buffer->flags & RB_RECORD_ON))
		goto out;
	count = hypercall(HC_TRACE_STACK, (unsigned long)calls, FTRACE_STACK_ENTRIES, from, is_return);
	if (count > FTRACE_STACK_ENTRIES)
		goto out;
	size = sizeof(*entry) + count * sizeof(long);
	entry = array_buffer_lock_reserve(buffer, size);
	if (!entry)
		goto out;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_STACK, irqs_off);
	entry->ent.pid = cpu->pid;
	entry->size = count;
	for (unsigned long n = 0; n != sizeof(entry->pad); n++)
		entry->pad[n] = 0;
	for (u32 n = 0; n < count; n++)
		entry->caller[n] = ((const volatile u64 *)calls)[n];
	array_buffer_unlock_commit(buffer);
out:
	cpu->trace_recursion = recursion;
	cpu->irqs_disabled = was_off;
}

/* Called by a tracer; the stack trace starts at the function with the site at `ip`. */
void ftrace_trace_stack(unsigned long ip, u32 irqs_off)
{
	__ftrace_trace_stack(&this_cpu->buffer, ip, 0, irqs_off);
}

/* The same, starting at the return address `address`. */
void trace_stack_from(unsigned long address, u32 irqs_off)
{
	__ftrace_trace_stack(&this_cpu->buffer, address, 1, irqs_off);
}

/* The same in another buffer of this CPU. */
void array_trace_stack(volatile struct ring_buffer_cpu *buffer, unsigned long ip, u32 irqs_off)
{
	__ftrace_trace_stack(buffer, ip, 0, irqs_off);
}

void array_trace_stack_from(volatile struct ring_buffer_cpu *buffer, unsigned long address,
			    u32 irqs_off)
{
	__ftrace_trace_stack(buffer, address, 1, irqs_off);
}

u64 stack_trace_max_size;
u32 tracer_frame;

/* Only for the task's own stack: its address follows task_struct.sp. */
static int object_is_on_stack(unsigned long object)
{
	const unsigned long *task = (const unsigned long *)(unsigned long)this_cpu->current_task;

	return task && task[1] == (object & ~(THREAD_SIZE - 1ul));
}

static void check_stack(unsigned long ip, unsigned long stack)
{
	u64 this_size = THREAD_SIZE - (stack & (THREAD_SIZE - 1ul));

	if (this_size - tracer_frame > stack_trace_max_size && object_is_on_stack(stack))
		hypercall(HC_STACK_MAX, this_size, ip, 0, 0);
}

/*
 * The tracer's own share of the stack depends on the call path. tracer_frame is the
 * minimum, so that no maximum is missed; the machine computes the exact size.
 */
void stack_trace_call(unsigned long ip, unsigned long parent_ip, void *op, struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion;

	cpu->irqs_disabled = 1;
	if (trace_recursion_start(&recursion)) {
		check_stack(ip, (unsigned long)__builtin_frame_address(0));
		trace_recursion_end(recursion);
	}
	cpu->irqs_disabled = irqs_off;
}
