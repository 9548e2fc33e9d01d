// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The names of the pids in a trace. Modelled on kernel/trace/trace_sched_switch.c.
 * Each pid has one slot in the table; if two pids share a slot, the later one
 * overwrites the other.
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

/* Record both names, once after an event on this CPU (trace_taskinfo_save). */
notrace void tracing_record_switch(struct task_struct *prev, struct task_struct *next)
{
	u32 entries = this_cpu->buffer.entries;

	if (entries == this_cpu->buffer.named)
		return;
	this_cpu->buffer.named = entries;
	tracing_record_cmdline(prev);
	tracing_record_cmdline(next);
}
