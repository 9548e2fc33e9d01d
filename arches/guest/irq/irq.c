// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls drivers' interrupt handlers for the machine. Modelled on
 * kernel/irq/{handle,manage}.c and an architecture's irq.c.
 */
#include "events.h"
#include "fs.h"
#include "irq.h"
#include "module.h"
#include "sched.h"

struct irqaction {
	irq_handler_t handler;
	void *dev;
	const char *name;
};

struct irq_desc {
	spinlock_t lock;
	struct irqaction action;
	unsigned long count[NR_CPUS];
	unsigned long spurious;
};

static struct irq_desc irq_desc[NR_VECTORS];

static int __handle_irq_event_percpu(struct irq_desc *desc, int irq)
{
	irq_handler_t handler = READ_ONCE(desc->action.handler);

	int ret;

	if (!handler)
		return IRQ_NONE;
	event_irq_handler_entry(irq, desc->action.name);
	ret = handler(irq, desc->action.dev);
	event_irq_handler_exit(irq, ret);
	return ret;
}

static void note_interrupt(struct irq_desc *desc)
{
	desc->spurious++;
}

static void handle_irq_event(struct irq_desc *desc, int irq)
{
	desc->count[smp_processor_id()]++;
	if (__handle_irq_event_percpu(desc, irq) == IRQ_NONE)
		note_interrupt(desc);
}

static void generic_handle_irq(int irq)
{
	handle_irq_event(&irq_desc[irq], irq);
}

static void __irq_entry do_IRQ(struct pt_regs *regs, unsigned long vector)
{
	irq_enter();
	if (vector < NR_VECTORS)
		generic_handle_irq(vector);
	irq_exit();
}

/*
 * The machine calls this on the interrupted stack and gets its registers back
 * by HC_IRET. This is glue code and not traced, as in the kernel.
 */
__used notrace noreturn void common_interrupt(struct pt_regs *regs, unsigned long vector)
{
	if (latency_traced())
		trace_hardirqs_off(0);
	do_IRQ(regs, vector);
	if (need_resched() && !preempt_count())
		preempt_schedule_irq();
	local_irq_disable();
	if (latency_traced())
		trace_hardirqs_on(0);
	for (forget_exclusive();;)
		hypercall(HC_IRET, ADDR(regs), 0, 0, 0);
}

static int reschedule_interrupt(int irq, void *dev)
{
	scheduler_ipi();
	return IRQ_HANDLED;
}

int request_irq(int irq, irq_handler_t handler, const char *name, void *dev)
{
	struct irq_desc *desc;
	unsigned long flags;
	int ret = 0;

	if (irq < 0 || irq >= NR_VECTORS)
		return -EINVAL;
	desc = &irq_desc[irq];
	spin_lock_irqsave(&desc->lock, flags);
	if (desc->action.handler) {
		ret = -EBUSY;
	} else {
		desc->action.dev = dev;
		desc->action.name = name;
		WRITE_ONCE(desc->action.handler, handler);
	}
	spin_unlock_irqrestore(&desc->lock, flags);
	return ret;
}
EXPORT_SYMBOL(request_irq);

void free_irq(int irq)
{
	unsigned long flags;

	spin_lock_irqsave(&irq_desc[irq].lock, flags);
	WRITE_ONCE(irq_desc[irq].action.handler, NULL);
	spin_unlock_irqrestore(&irq_desc[irq].lock, flags);
}
EXPORT_SYMBOL(free_irq);

unsigned long kstat_irqs(int irq)
{
	unsigned long n = 0;

	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		n += irq_desc[irq].count[cpu];
	return n;
}

notrace_nmi unsigned long kstat_irqs_cpu(int irq, int cpu)
{
	return irq_desc[irq].count[cpu];
}

static void name_show(struct seq_file *m, const struct irqaction *action)
{
	seq_printf(m, "  %s\n", action->name ? action->name : "");
}

/* /proc/interrupts */
int show_interrupts(struct seq_file *m)
{
	for (int irq = 0; irq < NR_VECTORS; irq++) {
		if (!irq_desc[irq].action.handler)
			continue;
		seq_printf(m, "%3d:", irq);
		for (u32 cpu = 0; cpu < this_cpu->nr_cpus && cpu < NR_CPUS; cpu++)
			seq_printf(m, " %10lu", irq_desc[irq].count[cpu]);
		name_show(m, &irq_desc[irq].action);
	}
	return 0;
}

void init_IRQ(void)
{
	request_irq(VECTOR_RESCHEDULE, reschedule_interrupt, "reschedule", NULL);
	irq_work_init();
}
