// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Critical sections of a chosen length, for the latency tracers. Has the parameters of the
 * kernel's lib/preemptirq_delay_test: for `delay` microseconds, `burst_size` times, interrupts
 * are off (test_mode=irq), preemption is (preempt), or one after the other (alternate), on the
 * CPU `cpu_affinity`. Loading the module runs the test to its end.
 */
#include "irq.h"
#include "module.h"
#include "sched.h"

static unsigned long delay = 100;
static char test_mode[12] = "irq";
static unsigned int burst_size = 1;
static int cpu_affinity = -1;

module_param(delay, ulong);
module_param_string(test_mode);
module_param(burst_size, uint);
module_param(cpu_affinity, int);

static struct completion done;

static notrace void busy_wait(unsigned long us)
{
	u64 end = this_clock->ticks + (u64)us * 1000;

	while (this_clock->ticks < end)
		barrier();
}

static void irqoff_test(void)
{
	unsigned long flags = local_irq_save();

	busy_wait(delay);
	local_irq_restore(flags);
}

static void preemptoff_test(void)
{
	preempt_disable();
	busy_wait(delay);
	preempt_enable();
}

static void execute_preemptirqtest(unsigned int n)
{
	if (!strcmp(test_mode, "irq"))
		irqoff_test();
	else if (!strcmp(test_mode, "preempt"))
		preemptoff_test();
	else if (!strcmp(test_mode, "alternate"))
		(n % 2 ? preemptoff_test : irqoff_test)();
}

static int preemptirq_delay_run(void *unused)
{
	for (unsigned int n = 0; n < burst_size; n++)
		execute_preemptirqtest(n);
	complete(&done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static int preemptirq_delay_init(void)
{
	struct task_struct *task;

	init_completion(&done);
	task = kthread_create(preemptirq_delay_run, NULL, "%s_test", test_mode);
	if (IS_ERR(task))
		return PTR_ERR(task);
	if (cpu_affinity >= 0 && (u32)cpu_affinity < this_cpu->nr_cpus)
		kthread_bind(task, cpu_affinity);
	wake_up_process(task);
	wait_for_completion(&done);
	kthread_stop(task);
	return 0;
}

static void preemptirq_delay_exit(void)
{
}

MODULE_LICENSE("GPL");
DEFINE_MODULE("preemptirq_delay_test", "", preemptirq_delay_init, preemptirq_delay_exit);
