// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System call events: called from the kernel's tracepoints sys_enter and sys_exit
 * while one of these events is enabled. Modelled on kernel/trace/trace_syscalls.c.
 */
#include "trace_events.h"
#include "tracepoint.h"

struct syscall_event syscall_events[SYSCALLS_MAX];

/* An event, with room for all arguments or the result. */
struct syscall_entry {
	struct trace_entry ent;
	s32 nr;
	unsigned char pad[sizeof(long) - 4];
	unsigned long values[SYSCALL_ARGS_MAX];
};

static void syscall_event_write(u32 type, long nr, const unsigned long *values, u32 count,
				unsigned long ip)
{
	struct trace_event_context context;
	struct syscall_entry entry;

	if (!trace_event_begin(&context))
		return;
	entry.nr = nr;
	for (unsigned long n = 0; n != sizeof(entry.pad); n++)
		entry.pad[n] = 0;
	for (u32 n = 0; n < count; n++)
		entry.values[n] = values[n];
	trace_event_commit(&context, type, &entry.ent,
			   __builtin_offsetof(struct syscall_entry, values) +
				   count * sizeof(long), ip);
}

void ftrace_syscall_enter(long nr, const unsigned long *args)
{
	u32 type, count;

	if ((unsigned long)nr >= SYSCALLS_MAX)
		return;
	type = syscall_events[nr].enter;
	count = syscall_events[nr].nb_args;
	if (type)
		syscall_event_write(type, nr, args,
				    count < SYSCALL_ARGS_MAX ? count : SYSCALL_ARGS_MAX, EVENT_IP);
}

void ftrace_syscall_exit(long nr, long ret)
{
	unsigned long value = ret;
	u32 type;

	if ((unsigned long)nr >= SYSCALLS_MAX)
		return;
	type = syscall_events[nr].exit;
	if (type)
		syscall_event_write(type, nr, &value, 1, EVENT_IP);
}
