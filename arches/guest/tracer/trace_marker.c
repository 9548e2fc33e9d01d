// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Text and bytes in the trace: trace_marker, trace_marker_raw, and messages of the tracers.
 * Modelled on tracing_mark_write() and tracing_mark_raw_write() in kernel/trace/trace.c.
 */
#include "tracer.h"

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

/* Write `text` for `ip` to the buffer of `tr`, or if it is 0 to the main one. */
static long mark_print(struct trace_array *tr, unsigned long ip, const char *text,
		       unsigned long len)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion = this_cpu->trace_recursion;
	struct print_entry *entry;
	unsigned long size;

	if (len > PRINT_MAX - 4)
		len = PRINT_MAX - 4;
	size = (sizeof(*entry) + len + 1 + 3) & ~3ul;
	this_cpu->irqs_disabled = 1;
	this_cpu->trace_recursion = recursion | trace_context();
	entry = (void *)mark_begin(array_buffer(tr), TRACE_PRINT, size, irqs_off);
	if (entry) {
		entry->ip = ip;
		mark_copy(entry->buf, text, len, size - sizeof(*entry));
		array_buffer_unlock_commit(array_buffer(tr));
		tracing_record_later(tr);
	}
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
	return entry ? (long)len : -EBADF;
}

/* The option trace_printk; written by the host. */
volatile u32 trace_printk_on = 1;

/* Write `text` to the trace for `ip`; return the bytes used, or -EBADF if tracing is off. */
long trace_array_puts(unsigned long ip, const char *text, unsigned long len)
{
	if (!trace_printk_on)
		return 0;
	return mark_print(0, ip, text, len);
}

/* Called for writes to trace_marker of `tr`, or if it is 0 of the main buffer. */
long tracing_mark_write(const char *text, unsigned long len, struct trace_array *tr)
{
	return mark_print(tr, FUNCTION_CODE(tracing_mark_write), text, len);
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
