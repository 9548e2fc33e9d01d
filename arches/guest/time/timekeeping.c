// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clocks and the tick. Modelled on kernel/time/{timekeeping,tick-common,
 * timer}.c. Each CPU's clock counts the nanoseconds of its own code.
 */
#include "irq.h"
#include "module.h"
#include "sched.h"

#define TICK_DO_TIMER_CPU 0

volatile unsigned long jiffies;

static struct {
	spinlock_t lock;
	u64 base;          /* ns when the last tick was counted */
	unsigned long sec, nsec;
} tk_core;

u64 sched_clock(void)
{
	return this_clock->ticks;
}
EXPORT_SYMBOL(sched_clock);

static u64 clocksource_read(void)
{
	return this_clock->ticks;
}

u64 ktime_get(void)
{
	return clocksource_read();
}
EXPORT_SYMBOL(ktime_get);

unsigned long get_seconds(void)
{
	return READ_ONCE(tk_core.sec);
}

static void timekeeping_advance(void)
{
	tk_core.base = clocksource_read();
	tk_core.nsec += NSEC_PER_JIFFY;
	if (tk_core.nsec >= 1000000000ul) {
		tk_core.nsec -= 1000000000ul;
		tk_core.sec++;
	}
}

static void update_wall_time(void)
{
	_raw_spin_lock(&tk_core.lock);
	timekeeping_advance();
	_raw_spin_unlock(&tk_core.lock);
}

static void do_timer(unsigned long ticks)
{
	jiffies += ticks;
	calc_global_load();
}

static void account_process_tick(struct task_struct *p)
{
	if (p->mm)
		p->utime++;
	else
		p->stime++;
}

static void update_process_times(void)
{
	account_process_tick(current);
	run_local_timers();
	rcu_sched_clock_irq(current->flags & PF_IDLE);
	scheduler_tick();
}

static void tick_periodic(int cpu)
{
	if (cpu == TICK_DO_TIMER_CPU) {
		do_timer(1);
		update_wall_time();
	}
	update_process_times();
}

static void tick_handle_periodic(void)
{
	tick_periodic(smp_processor_id());
}

int timer_interrupt(int irq, void *dev)
{
	tick_handle_periodic();
	return IRQ_HANDLED;
}

void timekeeping_init(void)
{
	tk_core.base = clocksource_read();
}

void time_init(void)
{
	request_irq(VECTOR_TIMER, timer_interrupt, "timer", NULL);
}
