// SPDX-License-Identifier: GPL-2.0-or-later
/* Wait queues and completions. Modelled on kernel/sched/{wait,completion}.c. */
#include "module.h"
#include "sched.h"

void init_waitqueue_head(wait_queue_head_t *wq)
{
	spin_lock_init(&wq->lock);
	INIT_LIST_HEAD(&wq->head);
}
EXPORT_SYMBOL(init_waitqueue_head);

void init_wait_entry(wait_queue_entry_t *wait, int exclusive)
{
	wait->task = current;
	wait->func = autoremove_wake_function;
	wait->exclusive = exclusive;
	INIT_LIST_HEAD(&wait->entry);
}
EXPORT_SYMBOL(init_wait_entry);

void prepare_to_wait(wait_queue_head_t *wq, wait_queue_entry_t *wait, unsigned int state)
{
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	if (list_empty(&wait->entry)) {
		if (wait->exclusive)
			list_add_tail(&wait->entry, &wq->head);
		else
			list_add(&wait->entry, &wq->head);
	}
	set_current_state(state);
	spin_unlock_irqrestore(&wq->lock, flags);
}
EXPORT_SYMBOL(prepare_to_wait);

void finish_wait(wait_queue_head_t *wq, wait_queue_entry_t *wait)
{
	unsigned long flags;

	set_current_state(TASK_RUNNING);
	spin_lock_irqsave(&wq->lock, flags);
	list_del_init(&wait->entry);
	spin_unlock_irqrestore(&wq->lock, flags);
}
EXPORT_SYMBOL(finish_wait);

static int default_wake_function(wait_queue_entry_t *wait, unsigned int mode)
{
	return try_to_wake_up(wait->task, mode);
}

int autoremove_wake_function(wait_queue_entry_t *wait, unsigned int mode)
{
	int woken = default_wake_function(wait, mode);

	if (woken)
		list_del_init(&wait->entry);
	return woken;
}

static void __wake_up_common(wait_queue_head_t *wq, unsigned int mode, int nr_exclusive)
{
	wait_queue_entry_t *wait, *next;

	list_for_each_entry_safe(wait, next, &wq->head, entry) {
		int exclusive = wait->exclusive;

		if (wait->func(wait, mode) && exclusive && !--nr_exclusive)
			break;
	}
}

/* Wake all waiters, but at most `nr_exclusive` exclusive ones (0: all). */
void __wake_up(wait_queue_head_t *wq, unsigned int mode, int nr_exclusive)
{
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	__wake_up_common(wq, mode, nr_exclusive);
	spin_unlock_irqrestore(&wq->lock, flags);
}
EXPORT_SYMBOL(__wake_up);

void init_completion(struct completion *x)
{
	x->done = 0;
	init_waitqueue_head(&x->wait);
}
EXPORT_SYMBOL(init_completion);

/* All under the queue's lock: the waiter may free `x` once it sees `done`. */
void complete(struct completion *x)
{
	unsigned long flags;

	spin_lock_irqsave(&x->wait.lock, flags);
	x->done++;
	__wake_up_common(&x->wait, TASK_NORMAL, 1);
	spin_unlock_irqrestore(&x->wait.lock, flags);
}
EXPORT_SYMBOL(complete);

static void wait_for_common(struct completion *x)
{
	wait_queue_entry_t wait;

	init_wait_entry(&wait, 1);
	spin_lock_irq(&x->wait.lock);
	while (!x->done) {
		if (list_empty(&wait.entry))
			list_add_tail(&wait.entry, &x->wait.head);
		set_current_state(TASK_UNINTERRUPTIBLE);
		spin_unlock_irq(&x->wait.lock);
		schedule();
		spin_lock_irq(&x->wait.lock);
	}
	x->done--;
	list_del_init(&wait.entry);
	set_current_state(TASK_RUNNING);
	spin_unlock_irq(&x->wait.lock);
}

void wait_for_completion(struct completion *x)
{
	wait_for_common(x);
}
EXPORT_SYMBOL(wait_for_completion);
