// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Work that runs in an interrupt of this CPU, as soon as interrupts are on. Modelled on
 * kernel/irq_work.c. The list is changed under a lock because an architecture's atomic
 * instructions may not work on a module's memory.
 */
#include "irq.h"
#include "module.h"

static struct irq_work *raised_list[NR_CPUS];
static DEFINE_SPINLOCK(irq_work_lock);

void init_irq_work(struct irq_work *work, void (*func)(struct irq_work *work))
{
	work->next = NULL;
	work->pending = work->busy = 0;
	work->func = func;
}
EXPORT_SYMBOL(init_irq_work);

static void arch_irq_work_raise(void)
{
	machine_call(HC_SEND_IPI, smp_processor_id(), VECTOR_IRQ_WORK, 0, 0);
}

/* Return 0 if the work is pending already. */
int irq_work_queue(struct irq_work *work)
{
	struct irq_work **last = &raised_list[0];
	unsigned long flags;
	int queued;

	spin_lock_irqsave(&irq_work_lock, flags);
	queued = !work->pending;
	if (queued) {
		work->pending = work->busy = 1;
		work->next = NULL;
		for (last = &raised_list[smp_processor_id()]; *last; last = &(*last)->next)
			;
		*last = work;
		arch_irq_work_raise();
	}
	spin_unlock_irqrestore(&irq_work_lock, flags);
	return queued;
}
EXPORT_SYMBOL(irq_work_queue);

static struct irq_work *irq_work_next(void)
{
	struct irq_work **list = &raised_list[smp_processor_id()], *work;

	spin_lock(&irq_work_lock);
	work = *list;
	if (work) {
		*list = work->next;
		work->pending = 0; /* it may be queued again from now on */
	}
	spin_unlock(&irq_work_lock);
	return work;
}

static void irq_work_single(struct irq_work *work)
{
	work->func(work);
	if (!READ_ONCE(work->pending))
		WRITE_ONCE(work->busy, 0);
}

static int irq_work_run(int irq, void *dev)
{
	struct irq_work *work;

	while ((work = irq_work_next()))
		irq_work_single(work);
	return IRQ_HANDLED;
}

/* Wait until the work has been done. */
void irq_work_sync(struct irq_work *work)
{
	while (READ_ONCE(work->busy))
		barrier();
}
EXPORT_SYMBOL(irq_work_sync);

void irq_work_init(void)
{
	request_irq(VECTOR_IRQ_WORK, irq_work_run, "IRQ work", NULL);
}
