// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts the other CPUs and sends them reschedule IPIs. Modelled on
 * kernel/{smp,cpu}.c and an architecture's smpboot.c. */
#include "irq.h"
#include "sched.h"
#include "stop_machine.h"

u32 cpu_online_mask = 1;

void smp_send_reschedule(int cpu)
{
	machine_call(HC_SEND_IPI, cpu, VECTOR_RESCHEDULE, 0, 0);
}

/* A call that one CPU (the first index) makes on another (the second). */
static struct call_single_data {
	void (*func)(void *info);
	void *info;
	u32 locked; /* 1 until the other CPU has called it */
} cfd_data[NR_CPUS][NR_CPUS];

/* On the other CPU: make the calls that others wait for. */
static void flush_smp_call_function_queue(void)
{
	for (int from = 0; from < NR_CPUS; from++) {
		struct call_single_data *csd = &cfd_data[from][smp_processor_id()];

		if (!READ_ONCE(csd->locked))
			continue;
		csd->func(csd->info);
		WRITE_ONCE(csd->locked, 0);
	}
}

static int call_function_interrupt(int irq, void *dev)
{
	flush_smp_call_function_queue();
	return IRQ_HANDLED;
}

static void send_call_function_single_ipi(int cpu)
{
	machine_call(HC_SEND_IPI, cpu, VECTOR_CALL_FUNCTION, 0, 0);
}

static void smp_call_function_many(u32 mask, void (*func)(void *info), void *info)
{
	struct call_single_data *cfd = cfd_data[smp_processor_id()];

	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		if (mask & (1u << cpu)) {
			cfd[cpu].func = func;
			cfd[cpu].info = info;
			WRITE_ONCE(cfd[cpu].locked, 1);
			send_call_function_single_ipi(cpu);
		}
	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		while (READ_ONCE(cfd[cpu].locked))
			barrier();
}

/* Call `func` on all CPUs and wait until all have done it; interrupts are on. */
void on_each_cpu(void (*func)(void *info), void *info)
{
	unsigned long flags;

	preempt_disable();
	smp_call_function_many(READ_ONCE(cpu_online_mask) & ~(1u << smp_processor_id()), func, info);
	flags = local_irq_save();
	func(info);
	local_irq_restore(flags);
	preempt_enable();
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

	request_irq(VECTOR_CALL_FUNCTION, call_function_interrupt, "call function", NULL);
	for (u32 cpu = 1; cpu < this_cpu->nr_cpus && cpu < NR_CPUS; cpu++) {
		int err = cpu_up(cpu);

		if (err)
			printk("CPU%u failed to come up: %d", cpu, err);
		else
			n++;
	}
	printk("smp: Brought up %d CPU%s", n, n > 1 ? "s" : "");
}
