// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Synthetic events: the host defines their fields, and actions of histograms give the values.
 * Modelled on trace_event_raw_event_synth() in kernel/trace/trace_events_synth.c.
 */
#include "trace_events.h"

struct synth_trace_event {
	struct trace_entry ent;
	u64 fields[];
};

static u32 string_length(const char *text)
{
	u32 length = 0;

	while (length < HIST_STRING - 1 && text[length])
		length++;
	return length + 1;
}

static void store_string(volatile char *to, const char *from, u32 length)
{
	for (u32 n = 0; n + 1 < length; n++)
		to[n] = from[n];
	to[length - 1] = 0;
}

static void store_number(u64 *to, u32 size, u64 value)
{
	if (size == 1)
		*(u8 *)to = value;
	else if (size == 2)
		*(u16 *)to = value;
	else if (size == 4)
		*(u32 *)to = value;
	else
		*to = value;
}

/* The string that field `n` gets. */
static const char *synth_string(const u64 *values, const u32 *refs, u32 n)
{
	return (const char *)(unsigned long)values[refs[n] % HIST_VARS_MAX];
}

static void synth_fill(const struct synth_event *event, struct synth_trace_event *entry,
		       const u64 *values, const u32 *refs)
{
	u32 end = sizeof(struct trace_entry) + event->nr_u64 * sizeof(u64);
	u64 *to = entry->fields;

	for (u32 n = 0; n < event->nr_fields; n++) {
		const struct synth_field *field = &event->fields[n];
		const char *text = synth_string(values, refs, n);

		if (field->kind == FILTER_KIND_NUMBER) {
			store_number(to++, field->size, values[refs[n] % HIST_VARS_MAX]);
		} else if (field->kind == FILTER_KIND_STRING) {
			store_string((char *)to, text, string_length(text));
			to += HIST_STRING / sizeof(u64);
		} else {
			u32 length = string_length(text);

			*(u32 *)to++ = end | length << 16;
			store_string((char *)entry + end, text, length);
			end += length;
		}
	}
}

/* Whether any trace array wants the event. */
static int event_enabled(u32 type)
{
	const struct trace_array *tr;

	for (tr = &global_trace; tr; tr = (const void *)(unsigned long)tr->next)
		if (tr->event_files[type % TRACE_EVENT_FILES].enabled)
			return 1;
	return 0;
}

/* Make an event of `values`; `refs` says which of them each field gets. */
void synth_event_trace(const struct synth_event *event, const u64 *values, const u32 *refs,
		       unsigned long ip, u32 irqs_off)
{
	struct trace_event_context context = { .irqs_off = irqs_off, .other_pid = -1 };
	u32 size = sizeof(struct trace_entry) + event->nr_u64 * sizeof(u64), words;
	struct synth_trace_event *entry;

	if (!event_enabled(event->type))
		return;
	for (u32 n = 0; n < event->nr_fields; n++)
		if (event->fields[n].kind == FILTER_KIND_DYN_STRING)
			size += string_length(synth_string(values, refs, n));
	words = size / sizeof(u64) + 1;
	entry = (struct synth_trace_event *)hist_scratch_get(words);
	if (!entry)
		return;
	for (u32 n = 0; n < words; n++)
		((volatile u64 *)entry)[n] = 0;
	synth_fill(event, entry, values, refs);
	trace_event_write(&context, event->type, &entry->ent, (size + 3) & ~3u, ip);
	hist_scratch_put(words);
}
