// SPDX-License-Identifier: GPL-2.0-or-later
/* The name of a task in its slot. Modelled on set_cmdline() in kernel/trace/trace.c. */
#include "sched.h"

/* One block of code, inside which the machine never stops: no reader sees part of a name. */
void set_cmdline(struct saved_cmdline *slot, const struct task_struct *p)
{
	const u32 *from = (const u32 *)p->comm;
	u32 *to = (u32 *)slot->comm;

	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
}
