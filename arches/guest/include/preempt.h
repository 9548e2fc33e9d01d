/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupt state and preempt_count, both words of the CPU-local page. Modelled
 * on linux/{preempt,irqflags}.h.
 *
 * preempt_count moves with its task from CPU to CPU, so the read-modify-writes
 * below are correct even if the task migrates between the read and the write.
 * It can migrate only while the count is 0 and interrupts are on, and then the
 * same holds on the new CPU.
 *
 * While a latency tracer is on, trace_type is not 0, and each change is reported to
 * irq/preemptirq.c. The functions with `raw_` report nothing.
 */
#ifndef PREEMPT_H
#define PREEMPT_H

#include "kernel.h"

#define SOFTIRQ_DISABLE_OFFSET (2 * SOFTIRQ_OFFSET)

void preempt_schedule(void); /* sched/core.c */
void __local_bh_enable_ip(void); /* irq/softirq.c */

/* irq/preemptirq.c; the argument is the caller of the function that makes the change. */
void trace_hardirqs_off(unsigned long parent_ip);
void trace_hardirqs_on(unsigned long parent_ip);
void trace_preempt_off(int added, unsigned long parent_ip);
void trace_preempt_on(int removed, unsigned long parent_ip);

#define latency_traced() unlikely(this_cpu->trace_type)
#define PARENT_IP ((unsigned long)__builtin_return_address(0))

static inline int smp_processor_id(void)
{
	return this_cpu->cpu;
}

static inline int preempt_count(void)
{
	return this_cpu->preempt_count;
}

static inline void preempt_count_add(int n)
{
	this_cpu->preempt_count += n;
	barrier();
	if (latency_traced())
		trace_preempt_off(n, PARENT_IP);
}

static inline void preempt_count_sub(int n)
{
	barrier();
	if (latency_traced())
		trace_preempt_on(n, PARENT_IP);
	this_cpu->preempt_count -= n;
}

#define in_hardirq() (preempt_count() & HARDIRQ_MASK)
#define in_nmi() (preempt_count() & NMI_MASK)
#define in_interrupt() (preempt_count() & (HARDIRQ_MASK | SOFTIRQ_MASK | NMI_MASK))
#define need_resched() (this_cpu->need_resched)
#define irqs_disabled() (this_cpu->irqs_disabled)
#define preempt_disable() preempt_count_add(1)
#define preempt_enable_no_resched() preempt_count_sub(1)

static inline void preempt_enable(void)
{
	preempt_count_sub(1);
	if (unlikely(need_resched() && !preempt_count() && !irqs_disabled()))
		preempt_schedule();
}

static inline unsigned long raw_local_irq_save(void)
{
	unsigned long flags = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	barrier();
	return flags;
}

static inline void raw_local_irq_restore(unsigned long flags)
{
	barrier();
	this_cpu->irqs_disabled = flags;
}

static inline unsigned long local_irq_save(void)
{
	unsigned long flags = raw_local_irq_save();

	if (latency_traced() && !flags)
		trace_hardirqs_off(PARENT_IP);
	return flags;
}

static inline void local_irq_restore(unsigned long flags)
{
	if (latency_traced() && !flags)
		trace_hardirqs_on(PARENT_IP);
	raw_local_irq_restore(flags);
}

static inline void local_irq_disable(void)
{
	(void)local_irq_save();
}

static inline void local_irq_enable(void)
{
	local_irq_restore(0);
}

static inline void local_bh_disable(void)
{
	preempt_count_add(SOFTIRQ_DISABLE_OFFSET);
}

static inline void local_bh_enable(void)
{
	__local_bh_enable_ip();
}

/* A hypercall's arguments are in the CPU-local page: no interrupt may come in between. */
static inline long machine_call(u32 nr, u64 a, u64 b, u64 c, u64 d)
{
	unsigned long flags = raw_local_irq_save();
	long result = hypercall(nr, a, b, c, d);

	raw_local_irq_restore(flags);
	return result;
}

#define ADDR(p) ((u64)(unsigned long)(p))

#endif
