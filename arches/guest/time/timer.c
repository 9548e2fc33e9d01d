// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Timers in jiffies: a wheel of 64 buckets on each CPU, turned by
 * TIMER_SOFTIRQ. Modelled on kernel/time/timer.c.
 */
#include "events.h"
#include "irq.h"
#include "module.h"
#include "sched.h"

#define WHEEL_SIZE 64

struct timer_base {
	spinlock_t lock;
	unsigned long clk; /* jiffies that the wheel has reached */
	unsigned long pending;
	struct timer_list *running_timer;
	struct list_head vectors[WHEEL_SIZE];
};

static struct timer_base timer_bases[NR_CPUS];

void timer_setup(struct timer_list *t, void (*fn)(struct timer_list *))
{
	INIT_LIST_HEAD(&t->entry);
	t->function = fn;
	t->base = NULL;
	event_timer_init(t);
}
EXPORT_SYMBOL(timer_setup);

static void enqueue_timer(struct timer_base *base, struct timer_list *t)
{
	unsigned long expires = time_after(t->expires, base->clk) ? t->expires : base->clk + 1;

	list_add_tail(&t->entry, &base->vectors[expires % WHEEL_SIZE]);
	base->pending++;
	WRITE_ONCE(t->base, base);
	event_timer_start(t, expires, smp_processor_id());
}

static inline void detach_timer(struct timer_base *base, struct timer_list *t)
{
	list_del_init(&t->entry);
	base->pending--;
}

static int detach_if_pending(struct timer_base *base, struct timer_list *t)
{
	if (list_empty(&t->entry))
		return 0;
	detach_timer(base, t);
	event_timer_cancel(t);
	return 1;
}

/* Lock and return the base a timer was last on; NULL if it was never started. */
static struct timer_base *lock_timer_base(struct timer_list *t, unsigned long *flags)
{
	for (;;) {
		struct timer_base *base = READ_ONCE(t->base);

		if (!base)
			return NULL;
		spin_lock_irqsave(&base->lock, *flags);
		if (base == READ_ONCE(t->base))
			return base;
		spin_unlock_irqrestore(&base->lock, *flags);
	}
}

static int __mod_timer(struct timer_list *t, unsigned long expires)
{
	struct timer_base *base;
	unsigned long flags;
	int was;

	was = del_timer(t);
	flags = local_irq_save();
	base = &timer_bases[smp_processor_id()];
	_raw_spin_lock(&base->lock);
	t->expires = expires;
	enqueue_timer(base, t);
	_raw_spin_unlock(&base->lock);
	local_irq_restore(flags);
	return was;
}

int mod_timer(struct timer_list *t, unsigned long expires)
{
	return __mod_timer(t, expires);
}
EXPORT_SYMBOL(mod_timer);

void add_timer(struct timer_list *t)
{
	__mod_timer(t, t->expires);
}
EXPORT_SYMBOL(add_timer);

int del_timer(struct timer_list *t)
{
	unsigned long flags;
	struct timer_base *base = lock_timer_base(t, &flags);
	int was;

	if (!base)
		return 0;
	was = detach_if_pending(base, t);
	spin_unlock_irqrestore(&base->lock, flags);
	return was;
}
EXPORT_SYMBOL(del_timer);

static int try_to_del_timer_sync(struct timer_list *t)
{
	unsigned long flags;
	struct timer_base *base = lock_timer_base(t, &flags);
	int ret = -1;

	if (!base)
		return 0;
	if (base->running_timer != t)
		ret = detach_if_pending(base, t);
	spin_unlock_irqrestore(&base->lock, flags);
	return ret;
}

/* Like del_timer(), but on return the function does not run on any CPU. */
int del_timer_sync(struct timer_list *t)
{
	int ret;

	while ((ret = try_to_del_timer_sync(t)) < 0)
		barrier();
	return ret;
}
EXPORT_SYMBOL(del_timer_sync);

static void call_timer_fn(struct timer_list *t, void (*fn)(struct timer_list *),
			  unsigned long baseclk)
{
	event_timer_expire_entry(t, baseclk);
	fn(t);
	event_timer_expire_exit(t);
}

static void expire_timers(struct timer_base *base, struct list_head *due)
{
	while (!list_empty(due)) {
		struct timer_list *t = list_first_entry(due, struct timer_list, entry);
		void (*fn)(struct timer_list *) = t->function;

		base->running_timer = t;
		detach_timer(base, t);
		_raw_spin_unlock_irq(&base->lock);
		call_timer_fn(t, fn, base->clk);
		_raw_spin_lock_irq(&base->lock);
		base->running_timer = NULL;
	}
}

static void collect_expired_timers(struct timer_base *base, struct list_head *due)
{
	struct timer_list *t, *next;

	list_for_each_entry_safe(t, next, &base->vectors[base->clk % WHEEL_SIZE], entry)
		if (!time_after(t->expires, base->clk)) {
			list_del_init(&t->entry);
			list_add_tail(&t->entry, due);
		}
}

static void __run_timers(struct timer_base *base)
{
	LIST_HEAD(due);

	_raw_spin_lock_irq(&base->lock);
	while (time_after(jiffies, base->clk)) {
		base->clk++;
		collect_expired_timers(base, &due);
		expire_timers(base, &due);
	}
	_raw_spin_unlock_irq(&base->lock);
}

static void run_timer_softirq(void)
{
	__run_timers(&timer_bases[smp_processor_id()]);
}

void run_local_timers(void)
{
	struct timer_base *base = &timer_bases[smp_processor_id()];

	if (!READ_ONCE(base->pending)) {
		/* The buckets in between are empty: skip them. */
		_raw_spin_lock(&base->lock);
		if (!base->pending && !base->running_timer && time_after(jiffies, base->clk))
			base->clk = jiffies;
		_raw_spin_unlock(&base->lock);
		return;
	}
	raise_softirq_irqoff(TIMER_SOFTIRQ);
}

void init_timers(void)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		for (int i = 0; i < WHEEL_SIZE; i++)
			INIT_LIST_HEAD(&timer_bases[cpu].vectors[i]);
	open_softirq(TIMER_SOFTIRQ, run_timer_softirq);
}

struct process_timer {
	struct timer_list timer;
	struct task_struct *task;
};

static void process_timeout(struct timer_list *t)
{
	wake_up_process(container_of(t, struct process_timer, timer)->task);
}

/* Sleep for `timeout` jiffies in the state set by the caller; return the rest. */
long schedule_timeout(long timeout)
{
	struct process_timer pt = { .task = current };
	unsigned long expire = jiffies + timeout;

	timer_setup(&pt.timer, process_timeout);
	__mod_timer(&pt.timer, expire);
	schedule();
	del_timer_sync(&pt.timer);
	timeout = expire - jiffies;
	return timeout < 0 ? 0 : timeout;
}
EXPORT_SYMBOL(schedule_timeout);

long schedule_timeout_interruptible(long timeout)
{
	set_current_state(TASK_INTERRUPTIBLE);
	return schedule_timeout(timeout);
}
EXPORT_SYMBOL(schedule_timeout_interruptible);

void msleep(unsigned int ms)
{
	long timeout = ms + 1; /* HZ is 1000 */

	while (timeout) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		timeout = schedule_timeout(timeout);
	}
}
EXPORT_SYMBOL(msleep);

static int do_nanosleep(long timeout)
{
	do {
		timeout = schedule_timeout_interruptible(timeout);
	} while (timeout);
	return 0;
}

int hrtimer_nanosleep(unsigned long ns)
{
	return do_nanosleep((ns + NSEC_PER_JIFFY - 1) / NSEC_PER_JIFFY + 1);
}
