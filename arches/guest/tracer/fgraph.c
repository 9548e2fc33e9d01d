// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The trick of the graph tracer: while a function runs, its return address is
 * that of return_to_handler, and the real one is saved here. Modelled on
 * kernel/trace/fgraph.c and kernel/trace/trace_functions_graph.c.
 *
 * In each task, functions return in the reverse order of their calls: an interrupt
 * ends before the code that it interrupted, and each task has its own stack.
 * Interrupts are off in this file. An NMI may come at any time, and uses the entries
 * above `index`: it is incremented before an entry is filled in, and decremented after
 * the entry was read.
 */
#include "tracer.h"
#include "tracepoint.h"

#define FGRAPH_CPUS 8

struct fgraph_control fgraph;

/* For kernels without tasks, and before the first task. */
static struct ftrace_ret_stack cpu_ret_stack[FGRAPH_CPUS];

struct ftrace_ret_stack *current_ret_stack(void)
{
	if (this_cpu->ret_stack)
		return (struct ftrace_ret_stack *)(unsigned long)this_cpu->ret_stack;
	return &cpu_ret_stack[this_cpu->cpu % FGRAPH_CPUS];
}

static void trace_graph_entry(unsigned long func, u32 depth, u32 irqs_off)
{
	struct ftrace_graph_ent_entry *entry = ring_buffer_lock_reserve(sizeof(*entry));

	if (!entry)
		return;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_GRAPH_ENT, irqs_off);
	entry->ent.pid = this_cpu->pid;
	entry->func = func;
	entry->depth = depth;
	ring_buffer_unlock_commit();
}

static void trace_graph_return(const struct ftrace_ret_stack *stack,
			       const struct ftrace_ret_entry *ret, unsigned long retval,
			       u64 rettime, u32 irqs_off)
{
	struct ftrace_graph_ret_entry *entry;

	if (fgraph.thresh && rettime - ret->calltime < fgraph.thresh)
		return;
	entry = ring_buffer_lock_reserve(sizeof(*entry));
	if (!entry)
		return;
	*(u32 *)&entry->ent = tracing_gen_ctx(TRACE_GRAPH_RET, irqs_off);
	entry->ent.pid = this_cpu->pid;
	entry->func = ret->func;
	entry->retval = retval;
	entry->depth = stack->depth;
	entry->overrun = stack->overrun;
	entry->calltime = ret->calltime;
	entry->rettime = rettime;
	ring_buffer_unlock_commit();
}

/*
 * Whether to trace a call of `func`, by function filters, pids, depth and interrupts.
 * A function in set_graph_function opens a traced section that its return closes,
 * also inside an interrupt; a function in set_graph_notrace opens a gap.
 */
static int graph_entry_wanted(const struct ftrace_ret_stack *stack, unsigned long func)
{
	int opens = fgraph.graph_count && !stack->graph_depth;

	if (stack->notrace_index || !ftrace_ops_test(&fgraph.ops, func))
		return 0;
	if (ftrace_pid_list && ftrace_ignore_task())
		return 0;
	if (opens && !ftrace_lookup_ip(fgraph.graph, fgraph.graph_count, func))
		return 0;
	if (fgraph.max_depth && stack->depth >= fgraph.max_depth)
		return 0;
	if (opens || (stack->graph_depth && stack->graph_in_irq))
		return 1;
	return !(fgraph.skip_irqs && this_cpu->preempt_count & HARDIRQ_MASK);
}

/*
 * Entry of a traced function: make *parent point to return_to_handler.
 * `frame_pointer` is a value that must be the same again on return;
 * return_to_handler passes it on.
 */
void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
			   unsigned long frame_pointer)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion;
	struct ftrace_ret_stack *stack;
	struct ftrace_ret_entry *entry;
	int gap;

	this_cpu->irqs_disabled = 1;
	if (!trace_recursion_start(&recursion))
		goto out;
	if (!fgraph.on) {
		if (fprofiler.on)
			profile_graph_entry(parent, self_addr, frame_pointer);
		goto untold;
	}
	stack = current_ret_stack();
	gap = fgraph.notrace_count && !stack->notrace_index &&
	      ftrace_lookup_ip(fgraph.notrace, fgraph.notrace_count, self_addr);
	if (!gap && !graph_entry_wanted(stack, self_addr))
		goto untold;
	if (stack->index >= FTRACE_RETFUNC_DEPTH) {
		stack->overrun++;
		goto untold;
	}
	entry = &stack->stack[stack->index];
	stack->index++;
	barrier();
	entry->ret = *parent;
	entry->func = self_addr;
	entry->fp = frame_pointer;
	entry->told = !gap;
	entry->calltime = this_clock->ticks;
	if (gap) {
		stack->notrace_index = stack->index;
		entry->profiled = 0;
	} else {
		if (fgraph.graph_count && !stack->graph_depth) {
			stack->graph_depth = stack->depth + 1;
			stack->graph_in_irq = !!(this_cpu->preempt_count & HARDIRQ_MASK);
		}
		stack->depth++;
		if (!fgraph.thresh)
			trace_graph_entry(self_addr, stack->depth - 1, irqs_off);
	}
	*parent = fgraph.return_to_handler;
untold:
	trace_recursion_end(recursion);
out:
	this_cpu->irqs_disabled = irqs_off;
}

/* The function of the graph tracer's ops; ftrace_graph_call after it does the work. */
void ftrace_graph_stub(unsigned long ip, unsigned long parent_ip, void *op, struct pt_regs *regs)
{
}

/* Report to the host, which knows symbols: it prints a report and stops the guest. */
static void bad_frame_pointer(const struct ftrace_ret_entry *entry, unsigned long received)
{
	hypercall(HC_GRAPH_STOP, entry->fp, received, entry->func, entry->ret);
}

/* The innermost traced function returned `retval`; return its real return address. */
unsigned long ftrace_return_to_handler(unsigned long frame_pointer, unsigned long retval)
{
	u32 irqs_off = this_cpu->irqs_disabled, recursion;
	struct ftrace_ret_stack *stack = current_ret_stack();
	struct ftrace_ret_entry *entry;
	unsigned long ret;
	int told;

	this_cpu->irqs_disabled = 1;
	told = trace_recursion_start(&recursion);
	if (!stack->index || stack->index > FTRACE_RETFUNC_DEPTH)
		hypercall(HC_GRAPH_STOP, 0, frame_pointer, 0, 0);
	entry = &stack->stack[stack->index - 1];
	if (unlikely(entry->fp != frame_pointer))
		bad_frame_pointer(entry, frame_pointer);
	if (entry->told) {
		stack->depth--;
		if (fgraph.on && told)
			trace_graph_return(stack, entry, retval, this_clock->ticks, irqs_off);
		if (stack->graph_depth == stack->depth + 1)
			stack->graph_depth = 0;
	} else if (entry->profiled) {
		profile_graph_return(stack, this_clock->ticks);
	} else if (stack->notrace_index == stack->index) {
		stack->notrace_index = 0;
	}
	ret = entry->ret;
	barrier();
	stack->index--;
	trace_recursion_end(recursion);
	this_cpu->irqs_disabled = irqs_off;
	return ret;
}

/*
 * If sleep_off is set: called before a task switch, with interrupts off. Subtracts the
 * time that `next` was off the CPU from its functions. A time stamp from before the last
 * change of sleep_off is stale: the task may have run since. Each CPU has its own clock,
 * so the difference may be negative, and is still correct.
 */
void ftrace_graph_probe_sched_switch(struct ftrace_ret_stack *prev, struct ftrace_ret_stack *next)
{
	u64 now = this_clock->ticks;

	prev->timestamp = now;
	prev->slept = fgraph.sleep_off;
	if (!fgraph.sleep_off || next->slept != fgraph.sleep_off)
		return;
	for (u32 i = 0; i < next->index && i < FTRACE_RETFUNC_DEPTH; i++)
		next->stack[i].calltime += now - next->timestamp;
}
