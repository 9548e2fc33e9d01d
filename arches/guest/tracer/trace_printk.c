// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages of trace_printk() in the buffer. Modelled on trace_vbprintk(), __trace_bputs() and
 * __trace_array_vprintk() in kernel/trace/trace.c.
 */
#include "trace_events.h"
#include "tracepoint.h"

/* Also an event of the type TRACE_BPUTS, which has no arguments. */
struct bprint_entry {
	struct trace_entry ent;
	event_address ip;
	event_address fmt;
	u32 buf[];
};

static void write_binary(u32 type, unsigned long ip, const void *fmt, unsigned long words,
			 const u32 *args)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion = this_cpu->trace_recursion;
	volatile struct ring_buffer_cpu *buffer = array_buffer(&global_trace);
	struct bprint_entry *entry;

	this_cpu->irqs_disabled = 1;
	this_cpu->trace_recursion = recursion | trace_context();
	entry = array_buffer_lock_reserve(buffer, sizeof(*entry) + words * sizeof(u32));
	if (entry) {
		*(u32 *)&entry->ent = tracing_gen_ctx(type, irqs_off);
		entry->ent.pid = this_cpu->pid;
		entry->ip = ip;
		entry->fmt = (unsigned long)fmt;
		for (unsigned long n = 0; n < words; n++)
			entry->buf[n] = args[n];
		array_buffer_unlock_commit(buffer);
		tracing_record_later(&global_trace);
	}
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
}

static void write_stack(unsigned long caller)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion = this_cpu->trace_recursion;

	this_cpu->irqs_disabled = 1;
	this_cpu->trace_recursion = recursion | trace_context();
	array_trace_stack_from(array_buffer(&global_trace), caller, irqs_off);
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
}

/* `len` is in bytes for TRACE_PRINT, and in words of `args` for TRACE_BPRINT. */
void trace_printk_write(u32 type, unsigned long ip, const void *text, unsigned long len,
			const u32 *args, unsigned long caller)
{
	if (!(global_trace.flags & TRACE_ITER_PRINTK))
		return;
	if (type == TRACE_PRINT)
		trace_array_puts(&global_trace, ip, text, len);
	else
		write_binary(type, ip, text, len, args);
	if (global_trace.flags & TRACE_ITER_STACKTRACE)
		write_stack(caller);
}
