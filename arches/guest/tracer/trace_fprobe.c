// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fprobe events: the entry into a function, with all registers. Modelled on
 * fentry_trace_func() in kernel/trace/trace_fprobe.c. The kernel fetches the
 * arguments here; this tracer leaves that to the reader of the event.
 */
#include "tracer.h"

u32 nr_pt_regs;

/* `op` is the event type to write, a number that the host assigned to the fprobe. */
void fentry_trace_func(unsigned long ip, unsigned long parent_ip, void *op, struct pt_regs *regs)
{
	volatile struct cpu_local *cpu = this_cpu;
	u32 irqs_off = cpu->irqs_disabled, recursion, count = nr_pt_regs;
	const unsigned long *from = (const unsigned long *)regs;
	struct fentry_trace_event *entry;
	unsigned long size = sizeof(*entry) + count * sizeof(long);

	cpu->irqs_disabled = 1;
	if (!trace_recursion_start(&recursion))
		goto out;
	/* No registers: a call for another user while sites are being patched. */
	if (!regs)
		goto out;
	entry = ring_buffer_lock_reserve(size);
	if (!entry)
		goto out;
	*(u32 *)&entry->ent = tracing_gen_ctx((unsigned long)op, irqs_off);
	entry->ent.pid = cpu->pid;
	entry->ip = ip;
	entry->parent_ip = parent_ip;
	for (u32 n = 0; n < count; n++)
		entry->regs[n] = from[n];
	ring_buffer_unlock_commit();
out:
	trace_recursion_end(recursion);
	cpu->irqs_disabled = irqs_off;
}
