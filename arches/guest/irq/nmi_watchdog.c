// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The handler of NMIs: the watchdog, which reports a CPU that takes no ticks. Modelled on
 * kernel/watchdog_hld.c.
 */
#include "irq.h"
#include "sched.h"

#ifndef NMI_HANDLE
#define NMI_HANDLE nmi_handle
#endif

static struct nmi_stat {
	unsigned long timer_irqs;    /* ticks seen by the last check */
	u64 checked;                 /* time of the last check */
	u32 hard_watchdog_warn;
} nmi_stats[NR_CPUS];

#define WATCHDOG_THRESH_NS 10000000000ull

/* Whether the CPU took no tick since the last check. */
static notrace_nmi int is_hardlockup(struct nmi_stat *stat)
{
	unsigned long now = kstat_irqs_cpu(VECTOR_TIMER, smp_processor_id());

	if (stat->timer_irqs == now)
		return 1;
	stat->timer_irqs = now;
	return 0;
}

/* An NMI that comes sooner says nothing about a lockup. */
static notrace_nmi int watchdog_check_timestamp(struct nmi_stat *stat)
{
	u64 now = this_clock->ticks;

	if (now - stat->checked < WATCHDOG_THRESH_NS)
		return 0;
	stat->checked = now;
	return 1;
}

/* printk() takes a lock, which the interrupted code may hold. */
static notrace_nmi void watchdog_warn(void)
{
	static const char text[] = "NMI watchdog: Watchdog detected hard LOCKUP";

	hypercall(HC_PRINTK, ADDR(text), sizeof(text) - 1, 0, 0);
}

static notrace_nmi int watchdog_overflow_callback(struct pt_regs *regs)
{
	struct nmi_stat *stat = &nmi_stats[smp_processor_id()];

	if (!watchdog_check_timestamp(stat))
		return IRQ_HANDLED;
	if (!is_hardlockup(stat)) {
		stat->hard_watchdog_warn = 0;
	} else if (!stat->hard_watchdog_warn) {
		stat->hard_watchdog_warn = 1;
		watchdog_warn();
	}
	return IRQ_HANDLED;
}

notrace_nmi int NMI_HANDLE(struct pt_regs *regs)
{
	return watchdog_overflow_callback(regs);
}
