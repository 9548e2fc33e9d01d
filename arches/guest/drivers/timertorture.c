// SPDX-License-Identifier: GPL-2.0-or-later
/* Timers that are started, moved, deleted or left to expire. The workload `timers`. */
#include "irq.h"
#include "mm.h"
#include "sched.h"
#include "workload.h"

struct torture_timer {
	struct timer_list timer;
	unsigned long wanted; /* jiffies */
	int fired, early;
};

static void torture_timer_fn(struct timer_list *t)
{
	struct torture_timer *tt = container_of(t, struct torture_timer, timer);

	tt->fired++;
	tt->early |= time_after(tt->wanted, jiffies);
}

static void torture_timer_start(struct torture_timer *tt, unsigned int n)
{
	timer_setup(&tt->timer, torture_timer_fn);
	tt->wanted = jiffies + 1 + n % 5;
	mod_timer(&tt->timer, tt->wanted);
	if (n % 3 == 1) {
		tt->wanted += 2;
		mod_timer(&tt->timer, tt->wanted);
	}
}

/* Every fourth timer is deleted before it fires; the others fire once, never early. */
static int torture_timer_check(struct torture_timer *tt, unsigned int n)
{
	int pending = del_timer_sync(&tt->timer);

	if (n % 4 == 3)
		return tt->fired > 1;
	return pending || tt->fired != 1 || tt->early;
}

long timer_torture(unsigned int count)
{
	struct torture_timer *timers = kzalloc(count * sizeof(*timers), GFP_KERNEL);
	int bad = 0;

	if (!timers)
		return -ENOMEM;
	for (unsigned int n = 0; n < count; n++)
		torture_timer_start(&timers[n], n);
	for (unsigned int n = 3; n < count; n += 4)
		del_timer(&timers[n].timer);
	msleep(10);
	for (unsigned int n = 0; n < count; n++)
		bad += torture_timer_check(&timers[n], n);
	kfree(timers);
	return bad ? -EIO : 0;
}
