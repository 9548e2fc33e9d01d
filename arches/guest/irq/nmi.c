// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * NMIs: interrupts that come even while interrupts are off, on a stack of their own.
 * Modelled on arch/x86/kernel/nmi.c. An NMI may interrupt any code, so its functions take no
 * lock and share no data with code that they may interrupt.
 *
 * DO_NMI is the name of the port's function. It is not traced, because preempt_count
 * does not yet say that this is an NMI.
 */
#include "irq.h"
#include "sched.h"

/* In 2.6.26, nmi_enter() was irq_enter(): in preempt_count, an NMI looked like an interrupt. */
#ifdef CONFIG_FTRACED
#define NMI_COUNT HARDIRQ_OFFSET
#else
#define NMI_COUNT (NMI_OFFSET + HARDIRQ_OFFSET)
#endif

#define nmi_enter() preempt_count_add(NMI_COUNT)
#define nmi_exit() preempt_count_sub(NMI_COUNT)

static char nmi_stacks[NR_CPUS][NMI_STACK_SIZE] __attribute__((aligned(16)));

/*
 * In the kernel of 2008, NMI code is annotated with notrace_nmi. It is also built without the
 * annotation: the host sets trace_nmi to show why ftrace needed it.
 */
#ifdef CONFIG_FTRACED
volatile u32 trace_nmi;
#else
#define trace_nmi 0
#define nmi_handle_traced nmi_handle
#endif

__used notrace void DO_NMI(struct pt_regs *regs)
{
	nmi_enter();
	if (trace_nmi)
		nmi_handle_traced(regs);
	else
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

/* Called on each CPU as early as possible: from here on, NMIs are delivered to it. */
notrace void nmi_init(void)
{
	this_cpu->nmi_stack = ADDR(nmi_stacks[smp_processor_id()] + NMI_STACK_SIZE);
}
