// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The names and thread groups of the pids in a trace. Modelled on
 * kernel/trace/trace_sched_switch.c. Each pid has one slot in the table; if two pids share
 * a slot, the later one overwrites the other.
 */
#include "sched.h"

static struct {
	struct saved_cmdlines_buffer head;
	struct saved_cmdline cmdlines[SAVED_CMDLINES];
} default_cmdlines = { .head = { .cmdline_num = SAVED_CMDLINES } };

struct saved_cmdlines_buffer *volatile savedcmd = &default_cmdlines.head;

void set_cmdline(struct saved_cmdline *slot, const struct task_struct *p);

notrace void tracing_record_cmdline(struct task_struct *p)
{
	struct saved_cmdlines_buffer *table = savedcmd;
	struct saved_cmdline *slot = &table->cmdlines[p->pid % table->cmdline_num];
	u32 flags = this_cpu->buffer.flags;

	if (!p->pid)
		return;
	if (slot->pid != p->pid) {
		slot->pid = p->pid;
		slot->tgid = 0;
		slot->comm[0] = 0;
	}
	if (flags & RB_RECORD_CMD)
		set_cmdline(slot, p);
	if (flags & RB_RECORD_TGID)
		slot->tgid = p->tgid;
}

/* Record both tasks, once after an event on this CPU (trace_taskinfo_save). */
notrace void tracing_record_switch(struct task_struct *prev, struct task_struct *next)
{
	u32 entries = this_cpu->buffer.entries;

	if (entries == this_cpu->buffer.named)
		return;
	this_cpu->buffer.named = entries;
	tracing_record_cmdline(prev);
	tracing_record_cmdline(next);
}
