// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Filters tasks by pid. Modelled on ftrace_pid_func() in kernel/trace/ftrace.c and
 * trace_ignore_this_task() in kernel/trace/trace.c. The kernel looks up a task on
 * each switch; this tracer does so on each call.
 */
#include "tracer.h"
#include "tracepoint.h"

volatile unsigned long ftrace_pid_list;

/* Whether the list at `address` excludes the current task; 0 stands for an empty list. */
int ftrace_pid_ignored(u64 address)
{
	const struct ftrace_pids *list = (const struct ftrace_pids *)(unsigned long)address;
	unsigned long pids;
	u32 pid = this_cpu->pid;

	if (!list)
		return 0;
	pids = (unsigned long)list->pids;
	return (list->nr && !ftrace_lookup_ip(pids, list->nr, pid)) ||
	       (list->no_nr &&
		ftrace_lookup_ip(pids + (unsigned long)list->nr * sizeof(u64), list->no_nr, pid));
}

int ftrace_ignore_task(void)
{
	return ftrace_pid_ignored(ftrace_pid_list);
}

/* `op` is the entry of ftrace_ops_list. */
void ftrace_pid_func(unsigned long ip, unsigned long parent_ip, void *op, struct pt_regs *regs)
{
	ftrace_func_t func = (ftrace_func_t)(unsigned long)((struct ftrace_ops_entry *)op)->saved_func;

	/* The entry may have another user by now. */
	if (func && !ftrace_ignore_task())
		func(ip, parent_ip, op, regs);
}

/*
 * The options function-fork and event-fork: the machine adds the child of a task that is in a
 * list, and removes a task that has ended. Modelled on trace_filter_add_remove_task() in
 * kernel/trace/trace.c.
 */
void ftrace_pid_follow(const struct task_fields *task, const struct task_fields *parent,
		       unsigned long parent_ip)
{
	u32 irqs_off = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	hypercall(HC_PID_FOLLOW, task->pid, parent ? parent->pid : 0, 0, 0);
	this_cpu->irqs_disabled = irqs_off;
}
