// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The trick of the graph tracer: while a function runs, its return address is
 * that of return_to_handler, and the real one is saved here. Modelled on
 * kernel/trace/fgraph.c and kernel/trace/trace_functions_graph.c.
 *
 * In each task, functions return in the reverse order of their calls: an interrupt
 * ends before the code that it interrupted, and each task has its own stack.
 * Interrupts are off in this file. An NMI may come at any time, and uses the entries
 * above `index`. So `index` is incremented before an entry is filled in, and decremented
 * after the entry was read, unless one block does all of it.
 */
#include "ring_buffer.h"
#include "trace_kprobe.h"
#include "tracepoint.h"

#define FGRAPH_CPUS 8

struct fgraph_control fgraph = { .slow_entry = 1, .slow_return = 1 };

/*
 * For each CPU, before its first task and in kernels without tasks. The host stores the address in
 * cpu_local.ret_stack; a kernel with tasks replaces it.
 */
struct ftrace_ret_stack cpu_ret_stack[FGRAPH_CPUS];

/* Add `n` to the index and the depth, which a register holds together if it can. */
static inline __attribute__((always_inline)) void
ret_stack_add(struct ftrace_ret_stack *stack, u32 index, u32 depth, long n)
{
	if (sizeof(long) == 8) {
		*(u64 *)&stack->index = word_pair(index, depth) + (n + ((s64)n << 32));
	} else {
		stack->index = index + n;
		stack->depth = depth + n;
	}
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

static __attribute__((noinline)) void graph_entry(unsigned long *parent, unsigned long self_addr,
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
		/* Read again, so that the tracer's own time does not count. */
		entry->calltime = this_clock->ticks;
	}
	*parent = fgraph.return_to_handler;
untold:
	trace_recursion_end(recursion);
out:
	this_cpu->irqs_disabled = irqs_off;
}

/*
 * The event of a call that is on ret_stack already: see ring_buffer.h. Interrupts are off, so
 * that no event of an interrupt comes before it; `irqs_off` says whether they were off before.
 */
static __attribute__((noinline)) void graph_entry_slow(unsigned long self_addr, u32 depth,
						       u32 irqs_off)
{
	struct ftrace_ret_stack *stack = current_ret_stack();
	u32 recursion;

	if (trace_recursion_start(&recursion)) {
		trace_graph_entry(self_addr, depth, irqs_off);
		stack->stack[(stack->index - 1) % FTRACE_RETFUNC_DEPTH].calltime = this_clock->ticks;
		trace_recursion_end(recursion);
	}
	this_cpu->irqs_disabled = irqs_off;
}

#define GRAPH_ENT_SIZE (4 + sizeof(struct ftrace_graph_ent_entry))
#define GRAPH_RET_SIZE (4 + sizeof(struct ftrace_graph_ret_entry))

/*
 * Entry of a traced function: make *parent point to return_to_handler.
 * `frame_pointer` is a value that must be the same again on return;
 * return_to_handler passes it on. The common case is written here, in one block.
 */
ON_ONE_PAGE(1024) void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
					     unsigned long frame_pointer)
{
	volatile struct cpu_local *cpu = this_cpu;
	struct ftrace_graph_ent_entry *event;
	struct ftrace_ret_stack *stack;
	struct ftrace_ret_entry *entry;
	unsigned long unusual;
	u32 context, index, depth;
	struct rb_event rb;

	context = rb_plain_context(TRACE_GRAPH_ENT, cpu->irqs_disabled);
	stack = current_ret_stack();
	unusual = rb_unusual(0);
	index = stack->index;
	cpu->irqs_disabled = 1;
	RB_ALSO(unusual, (FTRACE_RETFUNC_DEPTH - 1 - index) >> 31);
	RB_ALSO(unusual, stack->notrace_index);
	RB_ALSO(unusual, ftrace_pid_list);
	RB_ALSO(unusual, fgraph.slow_entry);
	if (unlikely(rb_context(unusual))) {
		if (unusual) {
			cpu->irqs_disabled = rb_irqs_off(context);
			graph_entry(parent, self_addr, frame_pointer);
			return;
		}
		context = tracing_gen_ctx(TRACE_GRAPH_ENT, rb_irqs_off(context));
	}
	barrier();
	rb_write(&rb, GRAPH_ENT_SIZE, context);
	event = (struct ftrace_graph_ent_entry *)(rb.event + 1);
	EVENT_STORE(event->func, self_addr);
	/* Loading these again takes less time than keeping them in registers that must be saved. */
	stack = current_ret_stack();
	rb_load(&stack->index, &index, &depth);
	event->depth = depth;
	entry = &stack->stack[index];
	entry->ret = *parent;
	entry->func = self_addr;
	entry->fp = frame_pointer;
	EVENT_STORE(((struct event_pair *)&entry->told)->words, word_pair(1, 0));
	entry->calltime = this_clock->ticks; /* as in rb_write() */
	ret_stack_add(stack, index, depth, 1);
	*parent = fgraph.return_to_handler;
	cpu->irqs_disabled = rb_irqs_off(context) | ((u32)rb.keep + 1);
	if (unlikely(!rb.keep))
		graph_entry_slow(self_addr, depth, rb_irqs_off(context));
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

/*
 * Interrupts are off since `rettime`, so that the task was not off the CPU in between;
 * `irqs_off` says whether they were off before.
 */
static __attribute__((noinline)) unsigned long graph_return(unsigned long frame_pointer,
							    unsigned long retval, u64 rettime,
							    u32 irqs_off)
{
	struct ftrace_ret_stack *stack = current_ret_stack();
	struct ftrace_ret_entry *entry;
	unsigned long ret;
	u32 recursion;
	int told;

	told = trace_recursion_start(&recursion);
	if (!stack->index || stack->index > FTRACE_RETFUNC_DEPTH)
		hypercall(HC_GRAPH_STOP, 0, frame_pointer, 0, 0);
	entry = &stack->stack[stack->index - 1];
	if (unlikely(entry->fp != frame_pointer))
		bad_frame_pointer(entry, frame_pointer);
	if (entry->told == FGRAPH_KRETPROBE) {
		kretprobe_return((struct trace_probe *)(unsigned long)entry->probe, entry->ret,
				 entry->fp, retval, irqs_off, told);
	} else if (entry->told) {
		stack->depth--;
		if (fgraph.on && told)
			trace_graph_return(stack, entry, retval, rettime, irqs_off);
		if (stack->graph_depth == stack->depth + 1)
			stack->graph_depth = 0;
	} else if (entry->profiled) {
		profile_graph_return(stack, rettime);
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
 * The innermost traced function returned `retval`; return its real return address. The common
 * case is written here, in one block.
 */
ON_ONE_PAGE(1024) unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
							 unsigned long retval)
{
	volatile struct cpu_local *cpu = this_cpu;
	u64 rettime = this_clock->ticks; /* before the code that depends on the context */
	struct ftrace_graph_ret_entry *event;
	struct ftrace_ret_stack *stack;
	struct ftrace_ret_entry *entry;
	unsigned long unusual, ret;
	u32 context, index, depth;
	struct rb_event rb;

	context = rb_plain_context(TRACE_GRAPH_RET, cpu->irqs_disabled);
	cpu->irqs_disabled = 1;
	stack = current_ret_stack();
	unusual = rb_unusual(0);
	index = stack->index;
	/* Without an entry, these are words before the first one. */
	entry = &stack->stack[(long)index - 1];
	RB_ALSO(unusual, (index - 1) >> 31);
	RB_ALSO(unusual, entry->fp ^ frame_pointer);
	RB_ALSO(unusual, entry->told ^ 1);
	RB_ALSO(unusual, stack->graph_depth);
	RB_ALSO(unusual, fgraph.slow_return);
	if (unlikely(rb_context(unusual))) {
		if (unusual)
			return graph_return(frame_pointer, retval, rettime, rb_irqs_off(context));
		context = tracing_gen_ctx(TRACE_GRAPH_RET, rb_irqs_off(context));
	}
	barrier();
	rb_write(&rb, GRAPH_RET_SIZE, context);
	event = (struct ftrace_graph_ret_entry *)(rb.event + 1);
	/* Again, for the same reason as in prepare_ftrace_return(). */
	stack = current_ret_stack();
	rb_load(&stack->index, &index, &depth);
	event->depth = depth - 1;
	entry = &stack->stack[(long)index - 1];
	ret_stack_add(stack, index, depth, (long)rb.keep);
	event->overrun = stack->overrun;
	EVENT_STORE(event->retval, retval);
	EVENT_STORE(event->func, entry->func);
	EVENT_STORE(event->calltime, entry->calltime);
	EVENT_STORE(event->rettime, rettime);
	/* Read before an interrupt can use the entry again. */
	ret = *(volatile unsigned long *)&entry->ret;
	cpu->irqs_disabled = rb_irqs_off(context) | ((u32)rb.keep + 1);
	if (unlikely(!rb.keep))
		return graph_return(entry->fp, retval, rettime, rb_irqs_off(context));
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
