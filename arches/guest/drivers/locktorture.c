// SPDX-License-Identifier: GPL-2.0-or-later
/* All CPUs contend for the same locks. Modelled on kernel/locking/locktorture.c; the
 * workload `locks`. */
#include "irq.h"
#include "sched.h"
#include "workload.h"

static DEFINE_SPINLOCK(torture_spinlock);
static DEFINE_MUTEX(torture_mutex);
static struct {
	unsigned long spin_count, mutex_count; /* changed only under their locks */
	unsigned int loops, running;
	struct completion done;
} torture;

static void torture_spin_lock_write(void)
{
	spin_lock(&torture_spinlock);
	torture.spin_count++;
	spin_unlock(&torture_spinlock);
}

static void torture_mutex_delay(unsigned int n)
{
	if (n % 8 == 0)
		cond_resched();
	for (volatile int i = 0; i < 40; i++)
		;
}

static void torture_mutex_lock_write(unsigned int n)
{
	unsigned long seen;

	mutex_lock(&torture_mutex);
	seen = torture.mutex_count;
	torture_mutex_delay(n);
	torture.mutex_count = seen + 1; /* loses counts if two CPUs are ever inside */
	mutex_unlock(&torture_mutex);
}

static int lock_torture_writer(void *unused)
{
	for (unsigned int n = 0; n < torture.loops; n++) {
		torture_spin_lock_write();
		torture_mutex_lock_write(n);
	}
	complete(&torture.done);
	return 0;
}

static int lock_torture_start(void)
{
	int started = 0;

	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct task_struct *p;

		if (!(cpu_online_mask & (1u << cpu)))
			continue;
		for (int i = 0; i < 2; i++) {
			p = kthread_create(lock_torture_writer, NULL, "torture/%d:%d", cpu, i);
			if (IS_ERR(p))
				return started;
			kthread_bind(p, cpu);
			wake_up_process(p);
			started++;
		}
	}
	return started;
}

long lock_torture(unsigned int loops)
{
	unsigned long expected;
	int started;

	torture.spin_count = torture.mutex_count = 0;
	torture.loops = loops;
	init_completion(&torture.done);
	started = lock_torture_start();
	expected = (unsigned long)started * loops;
	for (int i = 0; i < started; i++)
		wait_for_completion(&torture.done);
	if (torture.spin_count != expected || torture.mutex_count != expected)
		return -EIO;
	return started ? 0 : -EAGAIN;
}
