// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes an event to each trace array, unless the event's filter, its triggers or the pids of
 * set_event_pid say otherwise. Modelled on trace_event_buffer_commit() in kernel/trace/trace.c.
 *
 * The kernel reserves space in the ring buffer first, unless the event has a filter. Here each
 * event is made on the stack and copied, so that a filtered event never reaches the buffer.
 */
#include "trace_events.h"

struct trace_array global_trace;

static int ignored(const struct ftrace_pids *list, u32 pid)
{
	unsigned long pids = (unsigned long)list->pids;

	return (list->nr && !ftrace_lookup_ip(pids, list->nr, pid)) ||
	       (list->no_nr &&
		ftrace_lookup_ip(pids + (unsigned long)list->nr * sizeof(u64), list->no_nr, pid));
}

/* Whether set_event_pid leaves the event out: it is about one task, or about two. */
static int trace_event_ignore_pids(const struct trace_array *tr, s32 other)
{
	const struct ftrace_pids *list = (void *)(unsigned long)tr->event_pids;

	return list && ignored(list, this_cpu->pid) && (other < 0 || ignored(list, other));
}

static void event_write(const struct trace_event_buffer *event)
{
	volatile struct ring_buffer_cpu *buffer = array_buffer(event->tr);
	u32 words = (event->size + 3) / 4, *to = array_buffer_lock_reserve(buffer, 4 * words);
	const u32 *from = (const u32 *)event->entry;

	if (!to)
		return;
	for (u32 n = 0; n < words; n++)
		to[n] = from[n];
	array_buffer_unlock_commit(buffer);
	tracing_record_later(event->tr);
	if (event->tr->flags & TRACE_ITER_STACKTRACE)
		array_trace_stack_from(buffer, event->ip, event->irqs_off);
}

static void event_to(const struct trace_event_buffer *event,
		     const struct trace_event_file *file, s32 other_pid)
{
	int stack = 0;

	if (!file->enabled || trace_event_ignore_pids(event->tr, other_pid))
		return;
	if (file->triggers)
		stack = event_triggers_call(event, file, 0);
	if (!file->soft_disabled &&
	    (!file->filter || filter_match_preds(file->filter, event->entry, event->size)))
		event_write(event);
	if (file->triggers)
		stack |= event_triggers_call(event, file, 1);
	if (stack)
		array_trace_stack_from(array_buffer(event->tr), event->ip, event->irqs_off);
}

void trace_event_write(const struct trace_event_context *context, u32 type,
		       struct trace_entry *entry, u32 size, unsigned long ip)
{
	struct trace_event_buffer event = { &global_trace, entry, size, context->irqs_off, ip };

	*(u32 *)entry = tracing_gen_ctx(type, context->irqs_off);
	entry->pid = this_cpu->pid;
	if (type >= TRACE_EVENT_FILES) { /* neither filter nor triggers, and none in instances */
		event_write(&event);
		return;
	}
	for (; event.tr; event.tr = (void *)(unsigned long)event.tr->next)
		event_to(&event, &event.tr->event_files[type], context->other_pid);
}

void trace_event_commit(const struct trace_event_context *context, u32 type,
			struct trace_entry *entry, u32 size, unsigned long ip)
{
	trace_event_write(context, type, entry, size, ip);
	trace_recursion_end(context->recursion);
	this_cpu->irqs_disabled = context->irqs_off;
}
