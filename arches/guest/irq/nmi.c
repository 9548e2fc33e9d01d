// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * NMIs: interrupts that come although interrupts are off, on a stack of their own.
 * Modelled on arch/x86/kernel/nmi.c and kernel/watchdog_hld.c. An NMI may interrupt any
 * code, so this file takes no lock and shares no data with code that it may interrupt.
 *
 * DO_NMI is the name of the port's function; nobody traces it, because preempt_count
 * does not yet say that this is an NMI.
 */
#include "irq.h"
#include "sched.h"

/* In 2.6.26, nmi_enter() was irq_enter(): preempt_count did not tell them apart. */
#ifdef CONFIG_FTRACED
#define NMI_COUNT HARDIRQ_OFFSET
#else
#define NMI_COUNT (NMI_OFFSET + HARDIRQ_OFFSET)
#endif

#define nmi_enter() preempt_count_add(NMI_COUNT)
#define nmi_exit() preempt_count_sub(NMI_COUNT)

static char nmi_stacks[NR_CPUS][NMI_STACK_SIZE] __attribute__((aligned(16)));

static struct nmi_stat {
	unsigned long count;         /* NMIs taken */
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

static notrace_nmi int nmi_handle(struct pt_regs *regs)
{
	nmi_stats[smp_processor_id()].count++;
	return watchdog_overflow_callback(regs);
}

__used notrace void DO_NMI(struct pt_regs *regs)
{
	nmi_enter();
	nmi_handle(regs);
	nmi_exit();
}

/*
 * The machine calls this and gets the registers back. It also keeps the interrupt state and
 * the words of a hypercall that the interrupted code may be about to make.
 */
__used notrace noreturn void common_nmi(struct pt_regs *regs)
{
	DO_NMI(regs);
	for (forget_exclusive();;)
		hypercall(HC_NMI_RETURN, ADDR(regs), 0, 0, 0);
}

unsigned long nmi_count(int cpu)
{
	return nmi_stats[cpu].count;
}

/* Called on each CPU as early as possible: from here on, NMIs are delivered to it. */
notrace void nmi_init(void)
{
	this_cpu->nmi_stack = ADDR(nmi_stacks[smp_processor_id()] + NMI_STACK_SIZE);
}
