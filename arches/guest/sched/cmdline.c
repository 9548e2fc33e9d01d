// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The names behind the pids of a trace, in miniature of
 * kernel/trace/trace_sched_switch.c. A pid has one place in the table; of two
 * with the same place the later one stays.
 */
#include "sched.h"

struct saved_cmdline saved_cmdlines[SAVED_CMDLINES];

notrace void tracing_record_cmdline(struct task_struct *p)
{
	struct saved_cmdline *slot = &saved_cmdlines[p->pid % SAVED_CMDLINES];

	if (!p->pid)
		return;
	slot->pid = p->pid;
	memcpy(slot->comm, p->comm, TASK_COMM_LEN);
}
