// SPDX-License-Identifier: GPL-2.0-or-later
/* The idle loop. Modelled on kernel/sched/idle.c. */
#include "irq.h"
#include "sched.h"

/*
 * Sleep until an interrupt. Interrupts are off here, so none can have come
 * between the caller's check of need_resched and this. The store that enables
 * them is after the one to `call` and before the one to `stop_request`. If an
 * interrupt is taken in between, its own hypercalls leave `call` at 0, so the
 * loop ends at once instead of sleeping after the interrupt.
 */
static void arch_cpu_idle(void)
{
	this_cpu->call = HC_IDLE;
	this_cpu->irqs_disabled = 0;
	this_cpu->stop_request = 1;
	while (this_cpu->call)
		;
}

/* Sleep is not a latency: interrupts are off here, but nothing waits for them. */
static void cpuidle_idle_call(void)
{
	local_irq_disable();
	if (latency_traced())
		stop_critical_timings();
	if (!need_resched())
		arch_cpu_idle();
	if (latency_traced())
		start_critical_timings();
	local_irq_enable();
}

/* CPU 0 does not sleep during boot: its first sleep means that boot is complete. */
static void cpu_idle_poll(void)
{
	while (!need_resched() && READ_ONCE(system_state) != SYSTEM_RUNNING)
		barrier();
}

static void do_idle(void)
{
	while (!need_resched()) {
		if (READ_ONCE(system_state) != SYSTEM_RUNNING)
			cpu_idle_poll();
		else
			cpuidle_idle_call();
	}
	schedule_idle();
}

void cpu_startup_entry(void)
{
	for (;;)
		do_idle();
}
