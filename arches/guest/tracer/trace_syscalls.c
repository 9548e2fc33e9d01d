// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System call events: called from the kernel's tracepoints sys_enter and sys_exit
 * while one of these events is enabled. Modelled on kernel/trace/trace_syscalls.c.
 */
#include "tracer.h"
#include "tracepoint.h"

struct syscall_event syscall_events[SYSCALLS_MAX];

static int syscall_trace_begin(u32 *irqs_off, u32 *recursion)
{
	*irqs_off = this_cpu->irqs_disabled;
	this_cpu->irqs_disabled = 1;
	if (trace_recursion_start(recursion))
		return 1;
	this_cpu->irqs_disabled = *irqs_off;
	return 0;
}

static void syscall_trace_end(u32 irqs_off, u32 recursion)
{
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
}

void ftrace_syscall_enter(long nr, const unsigned long *args)
{
	struct syscall_trace_enter *entry;
	unsigned long size, count;
	u32 type, irqs_off, recursion;

	if ((unsigned long)nr >= SYSCALLS_MAX)
		return;
	type = syscall_events[nr].enter;
	if (!type || !syscall_trace_begin(&irqs_off, &recursion))
		return;
	count = syscall_events[nr].nb_args;
	if (count > SYSCALL_ARGS_MAX)
		count = SYSCALL_ARGS_MAX;
	size = sizeof(*entry) + count * sizeof(long);
	entry = ring_buffer_lock_reserve(size);
	if (entry) {
		*(u32 *)&entry->ent = tracing_gen_ctx(type, irqs_off);
		entry->ent.pid = this_cpu->pid;
		entry->nr = nr;
		for (unsigned long n = 0; n != sizeof(entry->pad); n++)
			entry->pad[n] = 0;
		for (unsigned long n = 0; n < count; n++)
			entry->args[n] = args[n];
		ring_buffer_unlock_commit();
	}
	syscall_trace_end(irqs_off, recursion);
}

void ftrace_syscall_exit(long nr, long ret)
{
	struct syscall_trace_exit *entry;
	u32 type, irqs_off, recursion;

	if ((unsigned long)nr >= SYSCALLS_MAX)
		return;
	type = syscall_events[nr].exit;
	if (!type || !syscall_trace_begin(&irqs_off, &recursion))
		return;
	entry = ring_buffer_lock_reserve(sizeof(*entry));
	if (entry) {
		*(u32 *)&entry->ent = tracing_gen_ctx(type, irqs_off);
		entry->ent.pid = this_cpu->pid;
		entry->nr = nr;
		for (unsigned long n = 0; n != sizeof(entry->pad); n++)
			entry->pad[n] = 0;
		entry->ret = ret;
		ring_buffer_unlock_commit();
	}
	syscall_trace_end(irqs_off, recursion);
}
