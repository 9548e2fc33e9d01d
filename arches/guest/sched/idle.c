// SPDX-License-Identifier: GPL-2.0-or-later
/* The loop of a CPU with nothing to do. In miniature of kernel/sched/idle.c. */
#include "sched.h"

/*
 * Sleep until an interrupt. Interrupts are off here, so none can have come
 * between the caller's look at need_resched and this. The store that turns
 * them on stands after `call` and before `stop_request`: should one be taken
 * right there, its own calls of the machine leave `call` 0, and the loop ends
 * at once instead of sleeping past it.
 */
static void arch_cpu_idle(void)
{
	this_cpu->call = HC_IDLE;
	this_cpu->irqs_disabled = 0;
	this_cpu->stop_request = 1;
	while (this_cpu->call)
		;
}

static void cpuidle_idle_call(void)
{
	local_irq_disable();
	if (!need_resched())
		arch_cpu_idle();
	local_irq_enable();
}

/* Boot is one stretch of work: until it ends CPU 0 waits without sleeping. */
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
