// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts the other CPUs and sends them reschedule IPIs. Modelled on
 * kernel/{smp,cpu}.c and an architecture's smpboot.c. */
#include "irq.h"
#include "sched.h"

u32 cpu_online_mask = 1;

void smp_send_reschedule(int cpu)
{
	machine_call(HC_SEND_IPI, cpu, VECTOR_RESCHEDULE, 0, 0);
}

static void set_cpu_online(int cpu)
{
	__atomic_fetch_or(&cpu_online_mask, 1u << cpu, __ATOMIC_RELEASE);
}

static void smp_store_cpu_info(void)
{
	this_cpu->scratch[0] = ktime_get();
}

/* First function of a secondary CPU, on its idle task's stack, interrupts off. */
void start_secondary(struct task_struct *idle)
{
	smp_store_cpu_info();
	set_cpu_online(smp_processor_id());
	local_irq_enable();
	cpu_startup_entry();
}

/* The CPU-local page belongs to the new CPU, so that CPU fills it in. */
__used static notrace void secondary_entry(struct task_struct *idle)
{
	this_cpu->irqs_disabled = 1;
	this_cpu->preempt_count = 1;
	this_cpu->need_resched = 0;
	this_cpu->current_task = ADDR(idle);
	this_cpu->ret_stack = ADDR(&idle->ret_stack);
	this_cpu->pid = 0;
	nmi_init();
	start_secondary(idle);
}

static int do_boot_cpu(int cpu, struct task_struct *idle)
{
	return machine_call(HC_CPU_UP, cpu, ADDR(secondary_entry),
			    ADDR((char *)idle->stack + THREAD_SIZE), ADDR(idle));
}

static int bringup_cpu(int cpu)
{
	struct task_struct *idle = fork_idle(cpu);
	int err;

	if (!idle)
		return -ENOMEM;
	err = do_boot_cpu(cpu, idle);
	if (err)
		return err;
	while (!(READ_ONCE(cpu_online_mask) & (1u << cpu)))
		cond_resched();
	return 0;
}

static int cpu_up(int cpu)
{
	return bringup_cpu(cpu);
}

void smp_init(void)
{
	int n = 1;

	for (u32 cpu = 1; cpu < this_cpu->nr_cpus && cpu < NR_CPUS; cpu++) {
		int err = cpu_up(cpu);

		if (err)
			printk("CPU%u failed to come up: %d", cpu, err);
		else
			n++;
	}
	printk("smp: Brought up %d CPU%s", n, n > 1 ? "s" : "");
}
