// SPDX-License-Identifier: GPL-2.0-or-later
/* The triggers of events. Modelled on kernel/trace/trace_events_trigger.c. */
#include "trace_events.h"

int event_triggers_call(struct trace_event_file *file, const struct trace_entry *entry, u32 size,
			unsigned long ip)
{
	return 0;
}
