// SPDX-License-Identifier: GPL-2.0-or-later
/* Work queues, with one kernel thread per CPU. Modelled on kernel/workqueue.c. */
#include "irq.h"
#include "module.h"
#include "sched.h"

struct worker_pool {
	spinlock_t lock;
	struct list_head worklist;
	wait_queue_head_t more_work;
	struct work_struct *current_work;
	wait_queue_head_t work_done;
	unsigned long processed;
};

static struct worker_pool pools[NR_CPUS];

void INIT_WORK(struct work_struct *work, void (*func)(struct work_struct *))
{
	INIT_LIST_HEAD(&work->entry);
	work->pending = 0;
	work->func = func;
}
EXPORT_SYMBOL(INIT_WORK);

static void insert_work(struct worker_pool *pool, struct work_struct *work)
{
	list_add_tail(&work->entry, &pool->worklist);
	wake_up(&pool->more_work);
}

static void __queue_work(int cpu, struct work_struct *work)
{
	struct worker_pool *pool = &pools[cpu];
	unsigned long flags;

	spin_lock_irqsave(&pool->lock, flags);
	insert_work(pool, work);
	spin_unlock_irqrestore(&pool->lock, flags);
}

/* Return 1, or 0 if it was queued already. */
int queue_work_on(int cpu, struct work_struct *work)
{
	if (__atomic_exchange_n(&work->pending, 1, __ATOMIC_ACQUIRE))
		return 0;
	__queue_work(cpu, work);
	return 1;
}
EXPORT_SYMBOL(queue_work_on);

int schedule_work(struct work_struct *work)
{
	return queue_work_on(smp_processor_id(), work);
}
EXPORT_SYMBOL(schedule_work);

static void delayed_work_timer_fn(struct timer_list *t)
{
	__queue_work(smp_processor_id(), &container_of(t, struct delayed_work, timer)->work);
}

void INIT_DELAYED_WORK(struct delayed_work *dw, void (*func)(struct work_struct *))
{
	INIT_WORK(&dw->work, func);
	timer_setup(&dw->timer, delayed_work_timer_fn);
}
EXPORT_SYMBOL(INIT_DELAYED_WORK);

int schedule_delayed_work(struct delayed_work *dw, unsigned long delay)
{
	if (__atomic_exchange_n(&dw->work.pending, 1, __ATOMIC_ACQUIRE))
		return 0;
	mod_timer(&dw->timer, jiffies + delay);
	return 1;
}
EXPORT_SYMBOL(schedule_delayed_work);

static void process_one_work(struct worker_pool *pool, struct work_struct *work)
{
	void (*func)(struct work_struct *) = work->func;

	list_del_init(&work->entry);
	pool->current_work = work;
	_raw_spin_unlock_irq(&pool->lock);
	__atomic_store_n(&work->pending, 0, __ATOMIC_RELEASE);
	func(work);
	_raw_spin_lock_irq(&pool->lock);
	pool->current_work = NULL;
	pool->processed++;
}

static int worker_thread(void *data)
{
	struct worker_pool *pool = data;

	for (;;) {
		wait_event_interruptible(&pool->more_work, !list_empty(&pool->worklist));
		_raw_spin_lock_irq(&pool->lock);
		while (!list_empty(&pool->worklist))
			process_one_work(pool, list_first_entry(&pool->worklist,
								struct work_struct, entry));
		_raw_spin_unlock_irq(&pool->lock);
		wake_up_all(&pool->work_done);
	}
	return 0;
}

static int work_busy(struct work_struct *work)
{
	if (READ_ONCE(work->pending))
		return 1;
	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		if (READ_ONCE(pools[cpu].current_work) == work)
			return 1;
	return 0;
}

/* Wait until `work` is neither queued nor running. */
void flush_work(struct work_struct *work)
{
	while (work_busy(work))
		schedule_timeout_interruptible(1);
}
EXPORT_SYMBOL(flush_work);

/* The work must not requeue itself after this call. */
int cancel_delayed_work_sync(struct delayed_work *dw)
{
	int was = del_timer_sync(&dw->timer);

	if (was)
		__atomic_store_n(&dw->work.pending, 0, __ATOMIC_RELEASE);
	flush_work(&dw->work);
	return was;
}
EXPORT_SYMBOL(cancel_delayed_work_sync);

void workqueue_init(void)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct worker_pool *pool = &pools[cpu];
		struct task_struct *p;

		INIT_LIST_HEAD(&pool->worklist);
		init_waitqueue_head(&pool->more_work);
		init_waitqueue_head(&pool->work_done);
		if (!(cpu_online_mask & (1u << cpu)))
			continue;
		p = kthread_create(worker_thread, pool, "kworker/%d:0", cpu);
		if (IS_ERR(p))
			panic("no kworker/%d", cpu);
		kthread_bind(p, cpu);
		wake_up_process(p);
	}
}
