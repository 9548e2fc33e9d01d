// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The function profiler: counts hits on entry and sums up times on return, in one
 * table per CPU. Modelled on function_profile_call(),
 * profile_graph_entry() and profile_graph_return() in kernel/trace/ftrace.c; open
 * addressing replaces its lists.
 *
 * Interrupts are off in this file and it is not traced, so only its CPU and that CPU's
 * NMIs write a table. An NMI that comes while a function is added adds none.
 */
#include "tracer.h"

#define GOLDEN_RATIO_32 0x61c88647u

struct ftrace_profile_control fprofiler;

static volatile u32 profile_disabled[PROFILE_CPUS]; /* additions in progress */

static __attribute__((noinline, aligned(64))) void add_hit(volatile u64 *counter)
{
	++*counter;
}

/* Return this CPU's row of the function; 0 if it has none or, with `add`, no room for one. */
static inline __attribute__((always_inline)) struct ftrace_profile *
profiled_func(unsigned long ip, int add)
{
	u32 cpu = this_cpu->cpu % PROFILE_CPUS, mask = (1u << fprofiler.bits) - 1;
	u32 slot = ((u32)ip * GOLDEN_RATIO_32) >> (32 - fprofiler.bits);
	struct ftrace_profile *table = (struct ftrace_profile *)(unsigned long)fprofiler.tables;

	table += (unsigned long)cpu << fprofiler.bits;
	while (table[slot].ip != ip) {
		if (!table[slot].ip) {
			if (!add || fprofiler.used[cpu] >= fprofiler.limit)
				return 0;
			if (profile_disabled[cpu]++ == 0 && !table[slot].ip) {
				fprofiler.used[cpu]++;
				table[slot].ip = ip;
			}
			profile_disabled[cpu]--;
			if (table[slot].ip != ip)
				return 0;
			break;
		}
		slot = (slot + 1) & mask;
	}
	return &table[slot];
}

static inline __attribute__((always_inline)) void count_hit(unsigned long ip)
{
	struct ftrace_profile *rec = profiled_func(ip, 1);

	if (rec)
		add_hit(&rec->counter);
}

/* For kernels and ports without the graph tracer: counts hits only. */
void function_profile_call(unsigned long ip, unsigned long parent_ip, void *op,
			   struct pt_regs *regs)
{
	u32 irqs_off = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	if (fprofiler.on && !(this_cpu->trace_recursion & trace_context()))
		count_hit(ip);
	this_cpu->irqs_disabled = irqs_off;
}

/*
 * prepare_ftrace_return() for the profiler. Takes the time stamp last, so that the work
 * here does not count as time of the function.
 */
void profile_graph_entry(unsigned long *parent, unsigned long func, unsigned long frame_pointer)
{
	struct ftrace_ret_stack *stack = current_ret_stack();
	struct ftrace_ret_entry *entry;

	if ((ftrace_pid_list && ftrace_ignore_task()) ||
	    ((fgraph.ops.filter_count | fgraph.ops.notrace_count) &&
	     !ftrace_ops_test(&fgraph.ops, func)))
		return;
	if (stack->index >= FTRACE_RETFUNC_DEPTH) {
		stack->overrun++;
		return;
	}
	entry = &stack->stack[stack->index];
	stack->index++; /* first: an NMI uses the entries after it */
	barrier();
	entry->ret = *parent;
	entry->func = func;
	entry->fp = frame_pointer;
	entry->told = 0;
	entry->profiled = fprofiler.on;
	entry->subtime = 0;
	count_hit(func);
	*parent = fgraph.return_to_handler;
	entry->calltime = this_clock->ticks;
}

/*
 * The function of the last entry returns. As in the kernel, its time counts on the
 * CPU where it returns, if this profiling run counted its call. If that CPU has no row
 * for it, the time is lost. That CPU's clock may be behind the clock of the call.
 */
void profile_graph_return(struct ftrace_ret_stack *stack, u64 rettime)
{
	const struct ftrace_ret_entry *entry = &stack->stack[stack->index - 1];
	u64 time = rettime - entry->calltime;
	struct ftrace_profile *rec;

	if (!fprofiler.on || entry->profiled != fprofiler.on)
		return;
	if ((s64)time < 0)
		time = 0;
	if (fgraph.graph_off) {
		if (stack->index > 1)
			stack->stack[stack->index - 2].subtime += time;
		time = entry->subtime < time ? time - entry->subtime : 0;
	}
	rec = profiled_func(entry->func, 0);
	if (rec) {
		rec->time += time;
		rec->time_squared += time * time;
	}
}
