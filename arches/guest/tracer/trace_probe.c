// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Commands of set_ftrace_filter: functions that switch tracing on and off, that leave
 * the way to them in the trace, that have the machine take a snapshot or print what is
 * in the buffers. In miniature of function_trace_probe_call() in kernel/trace/ftrace.c
 * and of the probes in kernel/trace/trace_functions.c and kernel/trace/trace.c.
 *
 * Which function it is, and how often still, is found out here. What is to be done to
 * the buffers is the machine's to do, between two blocks of all CPUs: by then the
 * tables are done with, so that it may change them.
 */
#include "tracer.h"

struct func_probe func_probes[FUNC_PROBES_MAX];

volatile u32 tracing_is_on = 1;

/* The place of `ip` in the probe's table, or -1. */
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
 * 1 when there was something left of the count, which is then lowered. Without a
 * branch: one block, in which no other CPU comes between.
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

/* The same where a count below 0 has no end. */
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

static long trace_control(const struct func_probe *probe, unsigned long ip,
			  unsigned long parent_ip)
{
	return hypercall(HC_TRACE_CONTROL, (unsigned long)probe, ip, parent_ip, 0);
}

/*
 * Only a change counts. As in the kernel the state changes before the count: another CPU
 * in here sees that there is nothing to do, or lowers the same count to the same number.
 */
static void update_traceon_count(const struct func_probe *probe, unsigned long ip,
				 unsigned long parent_ip, s64 *count)
{
	u32 on = probe->command == FUNC_PROBE_TRACEON;
	s64 old = count ? *count : 1;

	if (old <= 0 || on == tracing_is_on)
		return;
	tracing_is_on = on;
	if (count)
		*count = old - 1;
	trace_control(probe, ip, parent_ip);
}

#define NOT_ALLOCATED "*** SNAPSHOT NOT ALLOCATED ***\n"
#define STOPPING "*** stopping trace here!   ***\n"

/* The machine swaps the buffers; where there is no other, it has stopped tracing. */
static void tracing_snapshot_instance(const struct func_probe *probe, unsigned long ip,
				      unsigned long parent_ip)
{
	unsigned long here = FUNCTION_CODE(tracing_snapshot_instance);

	if (trace_control(probe, ip, parent_ip) >= 0)
		return;
	trace_array_puts(here, NOT_ALLOCATED, sizeof(NOT_ALLOCATED) - 1);
	trace_array_puts(here, STOPPING, sizeof(STOPPING) - 1);
	trace_control(probe, 0, 0);
}

/* `op` is one of func_probes. */
void function_trace_probe_call(unsigned long ip, unsigned long parent_ip, void *op,
			       struct pt_regs *regs)
{
	struct func_probe *probe = op;
	u32 irqs_off = this_cpu->irqs_disabled, command = probe->command;
	s64 *count = 0;
	long place;

	this_cpu->irqs_disabled = 1;
	place = func_probe_find(probe, ip);
	/* A call that was on its way when its function was taken out. */
	if (place < 0)
		goto out;
	if (probe->counted)
		count = (s64 *)(unsigned long)probe->counts + place;
	if (command == FUNC_PROBE_TRACEON || command == FUNC_PROBE_TRACEOFF) {
		update_traceon_count(probe, ip, parent_ip, count);
	} else if (command == FUNC_PROBE_STACKTRACE) {
		if ((!count || tracing_is_on) && update_stack_count(count))
			ftrace_trace_stack(ip, irqs_off);
	} else if (command == FUNC_PROBE_SNAPSHOT) {
		if (update_count(count))
			tracing_snapshot_instance(probe, ip, parent_ip);
	} else if (update_count(count)) {
		trace_control(probe, ip, parent_ip);
	}
out:
	this_cpu->irqs_disabled = irqs_off;
}
