// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Commands of set_ftrace_filter: a function switches tracing or an event on or off, records a
 * stack trace, takes a snapshot or dumps the buffers. Modelled on function_trace_probe_call()
 * in kernel/trace/ftrace.c and on the probes in kernel/trace/trace_functions.c and
 * kernel/trace/trace.c.
 *
 * This file finds the function and updates its count. The machine then changes the
 * buffers, between two blocks of all CPUs. No CPU uses the tables at that time, so the
 * machine may change them.
 */
#include "tracer.h"

/* Return the index of `ip` in the probe's table, or -1. */
static long func_probe_find(const struct func_probe *probe, unsigned long ip)
{
	const u64 *ips = (const u64 *)(unsigned long)probe->ips;
	unsigned long low = 0, high = probe->nr;

	while (low < high) {
		unsigned long mid = low + (high - low) / 2;

		if (ips[mid] == ip)
			return mid;
		if (ips[mid] < ip)
			low = mid + 1;
		else
			high = mid;
	}
	return -1;
}

/*
 * Decrement the count and return 1, or return 0 if it was used up. There is no branch,
 * so this is one block and atomic to other CPUs.
 */
static int update_count(s64 *count)
{
	s64 old;
	u64 positive;

	if (!count)
		return 1;
	old = *count;
	positive = (u64)-old >> 63;
	*count = old - positive;
	return positive;
}

/* The same, but a negative count is unlimited. */
static int update_stack_count(s64 *count)
{
	s64 old;
	u64 nonzero;

	if (!count)
		return 1;
	old = *count;
	nonzero = (u64)(old | -old) >> 63;
	*count = old - nonzero;
	return nonzero;
}

static struct trace_array *probe_array(const struct func_probe *probe)
{
	return (struct trace_array *)(unsigned long)probe->array;
}

static long trace_control(const struct func_probe *probe, unsigned long ip,
			  unsigned long parent_ip)
{
	return hypercall(HC_TRACE_CONTROL, (unsigned long)probe, ip, parent_ip, 0);
}

/*
 * Only a change counts. As in the kernel, the state changes before the count: another CPU
 * sees that nothing is left to do, or decrements the same count to the same number.
 */
static void update_traceon_count(const struct func_probe *probe, unsigned long ip,
				 unsigned long parent_ip, s64 *count)
{
	struct trace_array *tr = probe_array(probe);
	u32 on = probe->command == FUNC_PROBE_TRACEON;
	s64 old = count ? *count : 1;

	if (old <= 0 || on == tr->tracing_is_on)
		return;
	tr->tracing_is_on = on;
	if (count)
		*count = old - 1;
	trace_control(probe, ip, parent_ip);
}

#define NOT_ALLOCATED "*** SNAPSHOT NOT ALLOCATED ***\n"
#define STOPPING "*** stopping trace here!   ***\n"
#define LATENCY_ACTIVE "*** LATENCY TRACER ACTIVE ***\n"
#define CANNOT_USE "*** Can not use snapshot (sorry) ***\n"
#define EBUSY 16
#define IN_NMI "*** SNAPSHOT CALLED FROM NMI CONTEXT ***\n"
#define IGNORED "*** snapshot is being ignored        ***\n"

/* The machine swaps the buffers, or stops tracing if there is no spare buffer. */
void tracing_snapshot_instance(struct trace_array *tr, unsigned long ip, unsigned long parent_ip)
{
	const struct func_probe *probe = &tr->probes[2 * (FUNC_PROBE_SNAPSHOT - 1)];
	unsigned long here = FUNCTION_CODE(tracing_snapshot_instance);
	long result;

	if (this_cpu->preempt_count & NMI_MASK) {
		trace_array_puts(tr, here, IN_NMI, sizeof(IN_NMI) - 1);
		trace_array_puts(tr, here, IGNORED, sizeof(IGNORED) - 1);
		return;
	}
	result = trace_control(probe, ip, parent_ip);
	if (result >= 0)
		return;
	if (result == -EBUSY) {
		trace_array_puts(tr, here, LATENCY_ACTIVE, sizeof(LATENCY_ACTIVE) - 1);
		trace_array_puts(tr, here, CANNOT_USE, sizeof(CANNOT_USE) - 1);
		return;
	}
	trace_array_puts(tr, here, NOT_ALLOCATED, sizeof(NOT_ALLOCATED) - 1);
	trace_array_puts(tr, here, STOPPING, sizeof(STOPPING) - 1);
	trace_control(probe, 0, 0);
}

/* Only a change counts, and a negative count is unlimited. */
static void update_event(const struct func_probe *probe, long place, s64 *count)
{
	u64 file = ((const u64 *)(unsigned long)probe->files)[place];
	volatile u32 *soft_disabled = &((struct trace_event_file *)(unsigned long)file)->soft_disabled;
	u32 off = probe->command == FUNC_PROBE_DISABLE_EVENT;

	if (!count || (*soft_disabled != off && update_stack_count(count)))
		*soft_disabled = off;
}

/* `op` is one of the probes of a trace array. */
void function_trace_probe_call(unsigned long ip, unsigned long parent_ip, void *op,
			       struct pt_regs *regs)
{
	struct func_probe *probe = op;
	u32 irqs_off = this_cpu->irqs_disabled, command = probe->command;
	s64 *count = 0;
	long place;

	this_cpu->irqs_disabled = 1;
	place = func_probe_find(probe, ip);
	/* The function was removed while this call was in flight. */
	if (place < 0)
		goto out;
	if (probe->counted)
		count = (s64 *)(unsigned long)probe->counts + place;
	if (command == FUNC_PROBE_TRACEON || command == FUNC_PROBE_TRACEOFF) {
		update_traceon_count(probe, ip, parent_ip, count);
	} else if (command == FUNC_PROBE_STACKTRACE) {
		if ((!count || probe_array(probe)->tracing_is_on) && update_stack_count(count))
			array_trace_stack(array_buffer(probe_array(probe)), ip, irqs_off);
	} else if (command == FUNC_PROBE_ENABLE_EVENT || command == FUNC_PROBE_DISABLE_EVENT) {
		update_event(probe, place, count);
	} else if (command == FUNC_PROBE_SNAPSHOT) {
		if (update_count(count))
			tracing_snapshot_instance(probe_array(probe), ip, parent_ip);
	} else if (update_count(count)) {
		trace_control(probe, ip, parent_ip);
	}
out:
	this_cpu->irqs_disabled = irqs_off;
}
