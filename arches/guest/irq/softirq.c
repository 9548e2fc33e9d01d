// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Deferred work of interrupts: softirqs on interrupt exit, ksoftirqd under
 * load, and tasklets on top of softirqs. Modelled on
 * kernel/softirq.c.
 */
#include "events.h"
#include "irq.h"
#include "module.h"
#include "sched.h"

#define MAX_SOFTIRQ_RESTART 10

static void (*softirq_vec[NR_SOFTIRQS])(void);
static volatile u32 softirq_pending[NR_CPUS];
static struct task_struct *ksoftirqd[NR_CPUS];
static struct list_head tasklet_vec[NR_CPUS];

#define local_softirq_pending() (softirq_pending[smp_processor_id()])

static void wakeup_softirqd(void)
{
	struct task_struct *tsk = ksoftirqd[smp_processor_id()];

	if (tsk)
		wake_up_process(tsk);
}

void open_softirq(int nr, void (*action)(void))
{
	softirq_vec[nr] = action;
}

static void __raise_softirq_irqoff(int nr)
{
	event_softirq_raise(nr);
	local_softirq_pending() |= 1u << nr;
}

/* Outside interrupts nothing else would run it soon, so wake ksoftirqd. */
void raise_softirq_irqoff(int nr)
{
	__raise_softirq_irqoff(nr);
	if (!in_interrupt())
		wakeup_softirqd();
}

void raise_softirq(int nr)
{
	unsigned long flags = local_irq_save();

	raise_softirq_irqoff(nr);
	local_irq_restore(flags);
}
EXPORT_SYMBOL(raise_softirq);

/* Called with interrupts off; they are on while the actions run. */
void __do_softirq(void)
{
	int max_restart = MAX_SOFTIRQ_RESTART;
	u32 pending = local_softirq_pending();

	preempt_count_add(SOFTIRQ_OFFSET);
	while (pending) {
		local_softirq_pending() = 0;
		local_irq_enable();
		for (int nr = 0; nr < NR_SOFTIRQS; nr++)
			if ((pending & (1u << nr)) && softirq_vec[nr]) {
				event_softirq_entry(nr);
				softirq_vec[nr]();
				event_softirq_exit(nr);
			}
		local_irq_disable();
		pending = local_softirq_pending();
		if (pending && !--max_restart) {
			wakeup_softirqd();
			break;
		}
	}
	preempt_count_sub(SOFTIRQ_OFFSET);
}

static void do_softirq(void)
{
	unsigned long flags;

	if (in_interrupt())
		return;
	flags = local_irq_save();
	if (local_softirq_pending())
		__do_softirq();
	local_irq_restore(flags);
}

void __local_bh_enable_ip(void)
{
	preempt_count_sub(SOFTIRQ_DISABLE_OFFSET - 1);
	if (unlikely(!in_interrupt() && local_softirq_pending() && !irqs_disabled()))
		do_softirq();
	preempt_enable();
}
EXPORT_SYMBOL(__local_bh_enable_ip);

static void invoke_softirq(void)
{
	__do_softirq();
}

void irq_enter(void)
{
	preempt_count_add(HARDIRQ_OFFSET);
}

void irq_exit(void)
{
	preempt_count_sub(HARDIRQ_OFFSET);
	if (!in_interrupt() && local_softirq_pending())
		invoke_softirq();
}

static int ksoftirqd_should_run(int cpu)
{
	return softirq_pending[cpu] != 0;
}

static void run_ksoftirqd(void)
{
	local_irq_disable();
	if (local_softirq_pending())
		__do_softirq();
	local_irq_enable();
	cond_resched();
}

static int smpboot_thread_fn(void *data)
{
	int cpu = (long)data;

	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!ksoftirqd_should_run(cpu)) {
			schedule();
			continue;
		}
		set_current_state(TASK_RUNNING);
		run_ksoftirqd();
	}
	return 0;
}

void tasklet_init(struct tasklet_struct *t, void (*func)(unsigned long), unsigned long data)
{
	INIT_LIST_HEAD(&t->list);
	t->scheduled = 0;
	t->func = func;
	t->data = data;
}
EXPORT_SYMBOL(tasklet_init);

static void __tasklet_schedule(struct tasklet_struct *t)
{
	unsigned long flags = local_irq_save();

	list_add_tail(&t->list, &tasklet_vec[smp_processor_id()]);
	raise_softirq_irqoff(TASKLET_SOFTIRQ);
	local_irq_restore(flags);
}

void tasklet_schedule(struct tasklet_struct *t)
{
	if (!__atomic_exchange_n(&t->scheduled, 1, __ATOMIC_ACQUIRE))
		__tasklet_schedule(t);
}
EXPORT_SYMBOL(tasklet_schedule);

static void tasklet_action(void)
{
	LIST_HEAD(list);

	local_irq_disable();
	list_splice_init(&tasklet_vec[smp_processor_id()], &list);
	local_irq_enable();
	while (!list_empty(&list)) {
		struct tasklet_struct *t = list_first_entry(&list, struct tasklet_struct, list);

		list_del_init(&t->list);
		__atomic_store_n(&t->scheduled, 0, __ATOMIC_RELEASE);
		t->func(t->data);
	}
}

void softirq_init(void)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		INIT_LIST_HEAD(&tasklet_vec[cpu]);
	open_softirq(TASKLET_SOFTIRQ, tasklet_action);
}

void spawn_ksoftirqd(void)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct task_struct *p;

		if (!(cpu_online_mask & (1u << cpu)))
			continue;
		p = kthread_create(smpboot_thread_fn, (void *)(long)cpu, "ksoftirqd/%d", cpu);
		if (IS_ERR(p))
			panic("no ksoftirqd/%d", cpu);
		kthread_bind(p, cpu);
		ksoftirqd[cpu] = p;
		wake_up_process(p);
	}
}
