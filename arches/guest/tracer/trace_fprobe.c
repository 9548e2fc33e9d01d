// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fprobe events: the entry into a function, with all registers. Modelled on
 * fentry_trace_func() in kernel/trace/trace_fprobe.c. The kernel fetches the
 * arguments here; this tracer leaves that to the reader of the event.
 */
#include "trace_events.h"

u32 nr_pt_regs;

#define PT_REGS_MAX 64

/* An event, with the registers in the order of the port's struct pt_regs. */
struct fprobe_entry {
	struct trace_entry ent;
	unsigned long ip, parent_ip;
	unsigned long regs[PT_REGS_MAX];
};

/* `op` is the event type to write, a number that the host assigned to the fprobe. */
void fentry_trace_func(unsigned long ip, unsigned long parent_ip, void *op, struct pt_regs *regs)
{
	const unsigned long *from = (const unsigned long *)regs;
	u32 count = nr_pt_regs < PT_REGS_MAX ? nr_pt_regs : PT_REGS_MAX;
	struct trace_event_context context;
	struct fprobe_entry entry;

	/* No registers: a call for another user while sites are being patched. */
	if (!regs || !trace_event_begin(&context))
		return;
	entry.ip = ip;
	entry.parent_ip = parent_ip;
	for (u32 n = 0; n < count; n++)
		entry.regs[n] = from[n];
	trace_event_commit(&context, (unsigned long)op, &entry.ent,
			   __builtin_offsetof(struct fprobe_entry, regs) + count * sizeof(long),
			   parent_ip);
}
