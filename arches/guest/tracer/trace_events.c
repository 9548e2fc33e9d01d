// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes an event, unless its filter, its triggers or the pids of set_event_pid say otherwise.
 * Modelled on trace_event_buffer_commit() in kernel/trace/trace.c.
 *
 * The kernel reserves space in the ring buffer first, unless the event has a filter. Here each
 * event is made on the stack and copied, so that a filtered event never reaches the buffer.
 */
#include "trace_events.h"

struct trace_event_file trace_event_files[TRACE_EVENT_FILES];

volatile unsigned long trace_event_pid_list;

static int ignored(const struct ftrace_pids *list, u32 pid)
{
	unsigned long pids = (unsigned long)list->pids;

	return (list->nr && !ftrace_lookup_ip(pids, list->nr, pid)) ||
	       (list->no_nr &&
		ftrace_lookup_ip(pids + (unsigned long)list->nr * sizeof(u64), list->no_nr, pid));
}

/* Whether set_event_pid leaves the event out: it is about one task, or about two. */
static int trace_event_ignore_pids(s32 other)
{
	const struct ftrace_pids *list = (const struct ftrace_pids *)trace_event_pid_list;

	return list && ignored(list, this_cpu->pid) && (other < 0 || ignored(list, other));
}

static void event_write(const struct trace_entry *entry, u32 size)
{
	u32 words = (size + 3) / 4, *to = ring_buffer_lock_reserve(4 * words);
	const u32 *from = (const u32 *)entry;

	if (!to)
		return;
	for (u32 n = 0; n < words; n++)
		to[n] = from[n];
	ring_buffer_unlock_commit();
}

void trace_event_write(const struct trace_event_context *context, u32 type,
		       struct trace_entry *entry, u32 size, unsigned long ip)
{
	struct trace_event_file *file = &trace_event_files[type];
	int stack = 0;

	*(u32 *)entry = tracing_gen_ctx(type, context->irqs_off);
	entry->pid = this_cpu->pid;
	if (type >= TRACE_EVENT_FILES) { /* neither filter nor triggers */
		event_write(entry, size);
		return;
	}
	if (!file->enabled || trace_event_ignore_pids(context->other_pid))
		return;
	if (file->triggers)
		stack = event_triggers_call(file, entry, size, ip, context->irqs_off, 0);
	if (!file->soft_disabled &&
	    (!file->filter || filter_match_preds(file->filter, entry, size)))
		event_write(entry, size);
	if (file->triggers)
		stack |= event_triggers_call(file, entry, size, ip, context->irqs_off, 1);
	if (stack)
		trace_stack_from(ip, context->irqs_off);
}

void trace_event_commit(const struct trace_event_context *context, u32 type,
			struct trace_entry *entry, u32 size, unsigned long ip)
{
	trace_event_write(context, type, entry, size, ip);
	trace_recursion_end(context->recursion);
	this_cpu->irqs_disabled = context->irqs_off;
}
