// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Trace clocks that are not simply the time of this CPU. Modelled on
 * kernel/trace/trace_clock.c. Each CPU has its own time here, and another CPU may be ahead,
 * as with the TSCs of sockets that were not started together.
 */
#include "tracer.h"

/* The clock `counter`: one number per event, across all CPUs. */
u64 trace_counter;

/* The clock `global`: the latest time that any CPU has stamped. */
static u64 prev_time;

/* The kernel's jiffies, for the clock `uptime`; written by the host. */
unsigned long trace_jiffies;

/* Units of the clock `uptime` in a second. */
#define USER_HZ 100

/* No branch, so that no other CPU comes between load and store. */
static ON_ONE_PAGE(128) u64 trace_clock_global(void)
{
	u64 now = this_clock->ticks, behind = now - prev_time;

	now -= behind & -(behind >> 63);
	prev_time = now;
	return now;
}

u64 trace_clock_of(u32 flags)
{
	if (flags & RB_CLOCK_GLOBAL)
		return trace_clock_global();
	if (flags & RB_CLOCK_JIFFIES)
		return *(volatile unsigned long *)trace_jiffies / (1000000000u / TICK_NS / USER_HZ);
	return ++trace_counter;
}
