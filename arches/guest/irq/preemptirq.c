// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reports to the latency tracers when interrupts or preemption go off and on. Modelled on
 * kernel/trace/trace_preemptirq.c and on preempt_latency_start() in kernel/sched/core.c. As
 * in the kernel, nothing here is traced.
 */
#include "irq.h"
#include "module.h"
#include "tracepoint.h"

struct tracepoint __tracepoint_irq_disable, __tracepoint_irq_enable;
struct tracepoint __tracepoint_preempt_disable, __tracepoint_preempt_enable;
struct tracepoint __tracepoint_critical_start, __tracepoint_critical_stop;

/* Written by the host. Nonzero: sleep counts as a latency, as on ports whose idle loop does
 * not call stop_critical_timings(). */
u32 latency_trace_idle;

#define CALLER_IP ((unsigned long)__builtin_return_address(0))

static inline void report(const struct tracepoint *tp, unsigned long ip, unsigned long parent_ip)
{
	if (READ_ONCE(tp->enabled))
		((critical_func)(unsigned long)tp->func)(ip, parent_ip);
}

/* Interrupts were on and are off now. */
void trace_hardirqs_off(unsigned long parent_ip)
{
	report(&__tracepoint_irq_disable, CALLER_IP, parent_ip);
}
EXPORT_SYMBOL(trace_hardirqs_off);

/* Interrupts will be on. */
void trace_hardirqs_on(unsigned long parent_ip)
{
	report(&__tracepoint_irq_enable, CALLER_IP, parent_ip);
}
EXPORT_SYMBOL(trace_hardirqs_on);

/* preempt_count was increased by `added`: from 0, if the two are equal now. */
void trace_preempt_off(int added, unsigned long parent_ip)
{
	if (preempt_count() == added)
		report(&__tracepoint_preempt_disable, CALLER_IP, parent_ip);
}
EXPORT_SYMBOL(trace_preempt_off);

/* preempt_count will be decreased by `removed`: to 0, if the two are equal now. */
void trace_preempt_on(int removed, unsigned long parent_ip)
{
	if (preempt_count() == removed)
		report(&__tracepoint_preempt_enable, CALLER_IP, parent_ip);
}
EXPORT_SYMBOL(trace_preempt_on);

/* Before a CPU sleeps: what follows is not part of a critical section. */
void stop_critical_timings(void)
{
	if (!latency_trace_idle)
		report(&__tracepoint_critical_stop, CALLER_IP, 0);
}

/* After a CPU has slept. */
void start_critical_timings(void)
{
	if (!latency_trace_idle)
		report(&__tracepoint_critical_start, CALLER_IP, 0);
}
