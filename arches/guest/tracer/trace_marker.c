// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Text and bytes in the trace: trace_marker, trace_marker_raw, and messages of the tracers.
 * Modelled on tracing_mark_write() and tracing_mark_raw_write() in kernel/trace/trace.c.
 */
#include "trace_events.h"

struct print_entry {
	struct trace_entry ent;
	event_address ip;
	char buf[];
};

struct raw_data_entry {
	struct trace_entry ent;
	u32 id;
	char buf[];
};

/* The longest text that fits into one page, with its NUL. */
#define PRINT_MAX (RING_BUFFER_DATA - 16 - sizeof(struct print_entry))

#define EBADF 9

/* Begin an event of `size` bytes, with interrupts off; return 0 if tracing is off. */
static struct trace_entry *mark_begin(volatile struct ring_buffer_cpu *buffer, u32 type,
				      unsigned long size, u32 irqs_off)
{
	struct trace_entry *entry = array_buffer_lock_reserve(buffer, size);

	if (!entry)
		return 0;
	*(u32 *)entry = tracing_gen_ctx(type, irqs_off);
	entry->pid = this_cpu->pid;
	return entry;
}

/* Copy `len` bytes to `to` and fill it with zeros up to `size`. */
static void mark_copy(char *to, const char *from, unsigned long len, unsigned long size)
{
	unsigned long n;

	for (n = 0; n < len; n++)
		to[n] = from[n];
	for (; n < size; n++)
		to[n] = 0;
}

/*
 * Write `text` for `ip` to the buffer of `tr`, followed by a new line unless it ends with one.
 * The triggers of the event ftrace:print see it without that line end.
 */
static long mark_print(struct trace_array *tr, unsigned long ip, const char *text,
		       unsigned long len, int triggers)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion = this_cpu->trace_recursion;
	volatile struct ring_buffer_cpu *buffer = array_buffer(tr);
	struct trace_event_file *file = &tr->event_files[TRACE_PRINT];
	struct print_entry *entry;
	unsigned long size;
	char line_end;
	int stack = 0;

	if (len > PRINT_MAX - 4)
		len = PRINT_MAX - 4;
	size = (sizeof(*entry) + len + 2 + 3) & ~3ul;
	this_cpu->irqs_disabled = 1;
	this_cpu->trace_recursion = recursion | trace_context();
	entry = (void *)mark_begin(buffer, TRACE_PRINT, size, irqs_off);
	if (entry) {
		struct trace_event_buffer event = { tr, &entry->ent, size, irqs_off, ip };

		triggers = triggers && file->triggers;
		entry->ip = ip;
		mark_copy(entry->buf, text, len, size - sizeof(*entry));
		if (triggers)
			stack = event_triggers_call(&event, file, 0);
		line_end = len && text[len - 1] != '\n' ? '\n' : 0;
		entry->buf[len] = line_end;
		array_buffer_unlock_commit(buffer);
		tracing_record_later(tr);
		if (triggers) {
			entry->buf[len] = 0;
			stack |= event_triggers_call(&event, file, 1);
			entry->buf[len] = line_end;
		}
		if (stack)
			array_trace_stack_from(buffer, EVENT_IP, irqs_off);
	}
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
	return entry ? (long)len : -EBADF;
}

long trace_array_puts(struct trace_array *tr, unsigned long ip, const char *text,
		      unsigned long len)
{
	if (!(global_trace.flags & TRACE_ITER_PRINTK))
		return 0;
	return mark_print(tr, ip, text, len, 0);
}

/* Called for writes to trace_marker of `tr`. */
long tracing_mark_write(const char *text, unsigned long len, struct trace_array *tr)
{
	return mark_print(tr, FUNCTION_CODE(tracing_mark_write), text, len, 1);
}

/* Called for writes to trace_marker_raw: an id of four bytes, then data. */
long tracing_mark_raw_write(const char *data, unsigned long len, struct trace_array *tr)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion = this_cpu->trace_recursion;
	unsigned long size = (sizeof(struct trace_entry) + len + 3) & ~3ul;
	struct raw_data_entry *entry;

	this_cpu->irqs_disabled = 1;
	this_cpu->trace_recursion = recursion | trace_context();
	entry = (void *)mark_begin(array_buffer(tr), TRACE_RAW_DATA, size, irqs_off);
	if (entry) {
		mark_copy((char *)&entry->id, data, len, size - sizeof(struct trace_entry));
		array_buffer_unlock_commit(array_buffer(tr));
		tracing_record_later(tr);
	}
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
	return entry ? (long)len : -EBADF;
}
