// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tracers wakeup and wakeup_rt: the longest time from the wakeup of a task until it runs.
 * Only a task more urgent than the running one counts and, of several, the most urgent.
 * Modelled on kernel/trace/trace_sched_wakeup.c.
 */
#include "tracer.h"
#include "tracepoint.h"

#define NO_PRIO 0x7fffffff
#define MAX_RT_PRIO 100

struct wakeup_control wakeup;

#define CALLER_IP ((unsigned long)__builtin_return_address(0))

void wakeup_tracer_call(unsigned long ip, unsigned long parent_ip, void *op,
			struct pt_regs *regs)
{
	if (wakeup.task && this_cpu->cpu == wakeup.current_cpu)
		function_trace_call(ip, parent_ip, op, regs);
}

static u8 state_number(u32 state)
{
	return state == 1 || state == 2 ? state : state == 0x80 ? 5 : 0;
}

/* One TRACE_CTX or TRACE_WAKE event. */
static void trace_ctx_event(u32 type, const struct task_fields *prev,
			    const struct task_fields *next, u32 irqs_off)
{
	struct ctx_switch_entry *entry = ring_buffer_lock_reserve(sizeof(*entry));

	if (!entry)
		return;
	*(u32 *)&entry->ent = tracing_gen_ctx(type, irqs_off);
	entry->ent.pid = this_cpu->pid;
	entry->prev_pid = prev->pid;
	entry->next_pid = next->pid;
	entry->next_cpu = next->cpu;
	entry->prev_prio = prev->prio;
	entry->prev_state = state_number(prev->state);
	entry->next_prio = next->prio;
	entry->next_state = state_number(next->state);
	ring_buffer_unlock_commit();
}

static void __wakeup_reset(void)
{
	wakeup.prio = NO_PRIO;
	wakeup.task = 0;
}

/* A task has moved to another CPU. */
void probe_wakeup_migrate_task(const struct task_fields *p, const struct task_fields *none,
			       unsigned long parent_ip)
{
	if ((unsigned long)p == wakeup.task)
		wakeup.current_cpu = p->cpu;
}

static void wakeup_start(const struct task_fields *p, const struct task_fields *curr,
			 unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	if (p->prio >= wakeup.prio)
		return;
	wakeup.cpu = wakeup.current_cpu = p->cpu;
	wakeup.prio = p->prio;
	wakeup.task = (unsigned long)p;
	critical_sections[wakeup.cpu % LATENCY_CPUS].preempt_timestamp = ftrace_now();
	trace_ctx_event(TRACE_WAKE, curr, p, irqs_off);
	trace_stack_from(ip, irqs_off);
	trace_function(ip, parent_ip, irqs_off);
}

void probe_wakeup(const struct task_fields *p, const struct task_fields *none,
		  unsigned long parent_ip)
{
	const struct task_fields *curr =
		(const struct task_fields *)(unsigned long)this_cpu->current_task;
	u32 irqs_off = this_cpu->irqs_disabled;

	if ((wakeup.rt_only && p->prio >= MAX_RT_PRIO) || p->prio >= wakeup.prio ||
	    p->prio >= curr->prio)
		return;
	this_cpu->irqs_disabled = 1;
	if (latency_begin()) {
		latency_lock();
		wakeup_start(p, curr, CALLER_IP, parent_ip, irqs_off);
		latency_unlock();
		latency_end();
	}
	this_cpu->irqs_disabled = irqs_off;
}

/* Return whether this was the longest time. */
static int wakeup_end(const struct task_fields *next, const struct task_fields *prev,
		      unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	u64 start = critical_sections[wakeup.cpu % LATENCY_CPUS].preempt_timestamp, delta;
	int longest;

	if ((unsigned long)next != wakeup.task) /* another CPU was faster */
		return 0;
	trace_function(ip, parent_ip, irqs_off);
	trace_ctx_event(TRACE_CTX, prev, next, irqs_off);
	trace_stack_from(ip, irqs_off);
	delta = ftrace_now() - start;
	longest = report_latency(delta);
	if (longest) {
		latency.max_latency = delta;
		max_trace.time_start = start;
		max_trace.critical_start = max_trace.critical_end = 0;
	}
	__wakeup_reset();
	return longest;
}

void probe_wakeup_sched_switch(const struct task_fields *next, const struct task_fields *prev,
			       unsigned long parent_ip)
{
	u32 irqs_off = this_cpu->irqs_disabled, cpu = wakeup.cpu;
	int longest;

	if ((unsigned long)next != wakeup.task)
		return;
	this_cpu->irqs_disabled = 1;
	if (latency_begin()) {
		latency_lock();
		longest = wakeup_end(next, prev, CALLER_IP, parent_ip, irqs_off);
		latency_unlock();
		/* Without the lock: the machine lets the other CPUs leave the tracer first. */
		if (longest)
			update_max_tr(next, cpu, 1);
		latency_end();
	}
	this_cpu->irqs_disabled = irqs_off;
}
