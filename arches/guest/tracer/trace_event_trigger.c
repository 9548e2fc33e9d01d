// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The triggers of events. Modelled on kernel/trace/trace_events_trigger.c. As in trace_probe.c,
 * this file decides, and the machine changes the buffers.
 */
#include "trace_kprobe.h"

static int trigger_matches(const struct event_trigger *trigger, const struct trace_entry *entry,
			   u32 size)
{
	return !trigger->filter || filter_match_preds(trigger->filter, entry, size);
}

/* Count down, and return whether the trigger is still to be executed. */
static int trigger_counts(struct event_trigger *trigger)
{
	if (!trigger->counted)
		return 1;
	if (!trigger->count)
		return 0;
	trigger->count--;
	return 1;
}

static void trigger_traceon(struct trace_array *tr, struct event_trigger *trigger,
			    unsigned long ip)
{
	u32 on = trigger->command == FUNC_PROBE_TRACEON;

	if (on == tr->tracing_is_on || !trigger_counts(trigger))
		return;
	tr->tracing_is_on = on;
	hypercall(HC_TRACE_CONTROL,
		  (unsigned long)&tr->probes[2 * (trigger->command - 1)], ip, 0, 0);
}

static void trigger_enable_event(struct event_trigger *trigger)
{
	struct trace_event_file *file = (struct trace_event_file *)(unsigned long)trigger->data;
	u32 off = trigger->command == TRIGGER_DISABLE_EVENT;

	if (file->soft_disabled != off && trigger_counts(trigger))
		file->soft_disabled = off;
}

/* Pause or continue all histograms of another event. */
static void trigger_enable_hist(struct event_trigger *trigger)
{
	struct trace_event_file *file = (struct trace_event_file *)(unsigned long)trigger->data;
	struct event_trigger *other;

	if (!trigger_counts(trigger))
		return;
	for (other = (void *)(unsigned long)file->triggers; other;
	     other = (void *)(unsigned long)other->next)
		if (other->command == TRIGGER_HIST)
			other->paused = trigger->command == TRIGGER_DISABLE_HIST;
}

static struct hist_trigger *trigger_hist(const struct event_trigger *trigger)
{
	return (struct hist_trigger *)(unsigned long)trigger->data;
}

/* Whether the trigger reads the event: the kernel then has already reserved space for it. */
static int looks_at_event(const struct event_trigger *trigger)
{
	return trigger->filter || trigger->command == TRIGGER_HIST;
}

/* Whether the trigger can change if this event is written, or write another one. */
static int changes_buffer(const struct event_trigger *trigger)
{
	if (trigger->command == TRIGGER_HIST)
		return trigger_hist(trigger)->nr_actions != 0;
	return trigger->command < TRIGGER_ENABLE_EVENT;
}

static int trigger_call(const struct trace_event_buffer *event, struct event_trigger *trigger)
{
	switch (trigger->command) {
	case FUNC_PROBE_TRACEON:
	case FUNC_PROBE_TRACEOFF:
		trigger_traceon(event->tr, trigger, event->ip);
		return 0;
	case FUNC_PROBE_SNAPSHOT:
		if (trigger_counts(trigger))
			tracing_snapshot_instance(event->tr, event->ip, 0);
		return 0;
	case FUNC_PROBE_STACKTRACE:
		return trigger_counts(trigger);
	case TRIGGER_ENABLE_EVENT:
	case TRIGGER_DISABLE_EVENT:
		trigger_enable_event(trigger);
		return 0;
	case TRIGGER_ENABLE_HIST:
	case TRIGGER_DISABLE_HIST:
		trigger_enable_hist(trigger);
		return 0;
	case TRIGGER_EPROBE:
		eprobe_trace_func((struct trace_probe *)(unsigned long)trigger->data, event);
		return 0;
	default:
		hist_trigger_update(trigger_hist(trigger), event);
		return 0;
	}
}

/*
 * Execute the triggers of `file` before (`after` 0) or after the event is written. If one of them
 * reads the event, the kernel reserves space for it before it executes them all: they can stop
 * tracing only after that event. For text of trace_marker this is always so.
 */
int event_triggers_call(const struct trace_event_buffer *event,
			const struct trace_event_file *file, int after)
{
	struct event_trigger *first = (struct event_trigger *)(unsigned long)file->triggers, *trigger;
	int reserved = file == &event->tr->event_files[TRACE_PRINT], stack = 0;

	for (trigger = first; trigger; trigger = (void *)(unsigned long)trigger->next)
		reserved |= looks_at_event(trigger);
	for (trigger = first; trigger; trigger = (void *)(unsigned long)trigger->next) {
		int late = reserved && changes_buffer(trigger);

		if (late == after && !trigger->paused &&
		    trigger_matches(trigger, event->entry, event->size))
			stack |= trigger_call(event, trigger);
	}
	return stack;
}
