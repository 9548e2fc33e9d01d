// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Changes of text that the console asks for. Modelled on ftrace_run_update_code() in
 * kernel/trace/ftrace.c.
 *
 * In Linux, the task that writes a file of tracefs does this. The console is not a task of this
 * kernel, so the thread `tracefs` does it on its behalf. As in the kernel, nothing in this file is
 * traced.
 */
#include "irq.h"
#include "sched.h"
#include "stop_machine.h"

volatile struct ftrace_update ftrace_update;
static struct task_struct *update_task;

/* Runs on one CPU, with all CPUs stopped. */
static int __ftrace_modify_code(void *data)
{
	return hypercall(HC_TEXT_POKE, 0, 0, 0, 0);
}

static void ftrace_run_update_code(void)
{
	if (ftrace_update.method == UPDATE_STOP_MACHINE)
		stop_machine(__ftrace_modify_code, NULL);
#ifdef CONFIG_X86
	else
		text_poke_bp_batch();
#endif
}

static int update_thread(void *unused)
{
	u32 done = 0;

	ftrace_update.task = current->pid;
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (ftrace_update.sequence == done) {
			schedule_notrace();
			continue;
		}
		set_current_state(TASK_RUNNING);
		done = ftrace_update.sequence;
		ftrace_run_update_code();
		machine_call(HC_FTRACE_UPDATED, done, 0, 0, 0);
	}
	return 0;
}

static int update_interrupt(int irq, void *dev)
{
	wake_up_process(update_task);
	return IRQ_HANDLED;
}

/* The user waits, so the thread does not wait for other tasks. */
void ftrace_update_init(void)
{
	update_task = kthread_create(update_thread, NULL, "tracefs");
	if (IS_ERR(update_task))
		panic("no task for changes of text");
	sched_set_fifo(update_task, 1);
	wake_up_process(update_task);
	request_irq(VECTOR_UPDATE, update_interrupt, "tracefs", NULL);
}
