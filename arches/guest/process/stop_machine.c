// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stops all CPUs for a change of text. Modelled on kernel/stop_machine.c.
 *
 * Each CPU has a thread, migration/N, that no other task keeps from running. To stop the
 * machine, all of them run multi_cpu_stop(): a CPU takes the next step only after every CPU has
 * acknowledged the last one. As in Linux, they call nothing that is traced meanwhile.
 *
 * The machine reads `stop_machine_data` and sees set_state() run; in Linux the data are on the
 * stack of the caller.
 */
#include "irq.h"
#include "sched.h"
#include "stop_machine.h"

struct cpu_stop_done {
	int nr_todo;
	int ret;
	struct completion completion;
};

struct cpu_stop_work {
	struct list_head list;
	cpu_stop_fn_t fn;
	void *arg;
	struct cpu_stop_done *done;
};

struct cpu_stopper {
	struct task_struct *thread;
	spinlock_t lock;
	struct list_head works;
	struct cpu_stop_work stop_work;
};

static struct cpu_stopper cpu_stoppers[NR_CPUS];
static DEFINE_MUTEX(stop_cpus_mutex);

struct multi_stop_data stop_machine_data;

static void cpu_stop_init_done(struct cpu_stop_done *done, int nr_todo)
{
	done->nr_todo = nr_todo;
	done->ret = 0;
	init_completion(&done->completion);
}

static void cpu_stop_signal_done(struct cpu_stop_done *done)
{
	if (__atomic_fetch_add(&done->nr_todo, -1, __ATOMIC_ACQ_REL) == 1)
		complete(&done->completion);
}

static void cpu_stop_queue_work(int cpu, struct cpu_stop_work *work)
{
	struct cpu_stopper *stopper = &cpu_stoppers[cpu];
	unsigned long flags;

	spin_lock_irqsave(&stopper->lock, flags);
	list_add_tail(&work->list, &stopper->works);
	spin_unlock_irqrestore(&stopper->lock, flags);
	wake_up_process(stopper->thread);
}

/* All get their work before this CPU's thread can run: otherwise it would wait for the others. */
static void queue_stop_cpus_work(u32 mask, cpu_stop_fn_t fn, void *arg, struct cpu_stop_done *done)
{
	preempt_disable();
	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct cpu_stop_work *work = &cpu_stoppers[cpu].stop_work;

		if (!(mask & (1u << cpu)))
			continue;
		work->fn = fn;
		work->arg = arg;
		work->done = done;
		cpu_stop_queue_work(cpu, work);
	}
	preempt_enable();
}

static int stop_cpus(u32 mask, cpu_stop_fn_t fn, void *arg)
{
	struct cpu_stop_done done;

	cpu_stop_init_done(&done, stop_machine_data.num_threads);
	queue_stop_cpus_work(mask, fn, arg, &done);
	wait_for_completion(&done.completion);
	return done.ret;
}

/* The machine stops here to show a state that every CPU has acknowledged. */
notrace void set_state(struct multi_stop_data *msdata, u32 newstate)
{
	msdata->thread_ack = msdata->num_threads;
	barrier();
	WRITE_ONCE(msdata->state, newstate);
}

/* The last CPU to acknowledge a state starts the next one. */
static inline void ack_state(struct multi_stop_data *msdata)
{
	if (__atomic_fetch_add(&msdata->thread_ack, -1, __ATOMIC_ACQ_REL) == 1)
		set_state(msdata, msdata->state + 1);
}

int multi_cpu_stop(void *data)
{
	struct multi_stop_data *msdata = data;
	u32 newstate, curstate = MULTI_STOP_NONE;
	unsigned long flags = irqs_disabled();
	int err = 0;

	do {
		newstate = READ_ONCE(msdata->state);
		if (newstate != curstate) {
			curstate = newstate;
			if (curstate == MULTI_STOP_DISABLE_IRQ)
				local_irq_disable();
			else if (curstate == MULTI_STOP_RUN && smp_processor_id() == msdata->active_cpu)
				err = msdata->fn(msdata->data);
			ack_state(msdata);
		}
	} while (curstate != MULTI_STOP_EXIT);
	local_irq_restore(flags);
	return err;
}

/* Call fn(data) on the first CPU while all CPUs are stopped with interrupts off. */
int stop_machine(cpu_stop_fn_t fn, void *data)
{
	struct multi_stop_data *msdata = &stop_machine_data;
	u32 mask = READ_ONCE(cpu_online_mask);
	int ret;

	mutex_lock(&stop_cpus_mutex);
	msdata->fn = fn;
	msdata->data = data;
	msdata->num_threads = 0;
	for (int cpu = NR_CPUS - 1; cpu >= 0; cpu--)
		if (mask & (1u << cpu)) {
			msdata->num_threads++;
			msdata->active_cpu = cpu;
		}
	set_state(msdata, MULTI_STOP_PREPARE);
	ret = stop_cpus(mask, multi_cpu_stop, msdata);
	mutex_unlock(&stop_cpus_mutex);
	return ret;
}

static struct cpu_stop_work *next_work(struct cpu_stopper *stopper)
{
	struct cpu_stop_work *work = NULL;
	unsigned long flags;

	spin_lock_irqsave(&stopper->lock, flags);
	if (!list_empty(&stopper->works)) {
		work = list_first_entry(&stopper->works, struct cpu_stop_work, list);
		list_del_init(&work->list);
	}
	spin_unlock_irqrestore(&stopper->lock, flags);
	return work;
}

static int cpu_stopper_thread(void *data)
{
	struct cpu_stopper *stopper = data;

	for (;;) {
		struct cpu_stop_work *work;

		set_current_state(TASK_INTERRUPTIBLE);
		work = next_work(stopper);
		if (!work) {
			schedule();
			continue;
		}
		set_current_state(TASK_RUNNING);
		preempt_disable(); /* a stop function must not sleep */
		if (work->fn(work->arg))
			work->done->ret = -EINVAL;
		cpu_stop_signal_done(work->done);
		preempt_enable();
	}
	return 0;
}

/* No task runs before this one. */
static void sched_set_stop_task(struct task_struct *stop)
{
	sched_set_fifo(stop, MAX_RT_PRIO - 1);
}

void cpu_stop_init(void)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct cpu_stopper *stopper = &cpu_stoppers[cpu];
		struct task_struct *p;

		spin_lock_init(&stopper->lock);
		INIT_LIST_HEAD(&stopper->works);
		if (!(cpu_online_mask & (1u << cpu)))
			continue;
		p = kthread_create(cpu_stopper_thread, stopper, "migration/%d", cpu);
		if (IS_ERR(p))
			panic("no migration/%d", cpu);
		kthread_bind(p, cpu);
		sched_set_stop_task(p);
		stopper->thread = p;
		wake_up_process(p);
	}
}
