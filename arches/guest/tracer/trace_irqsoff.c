// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tracers irqsoff, preemptoff and preemptirqsoff: the longest critical section of all
 * CPUs, with the functions called in it. Modelled on kernel/trace/trace_irqsoff.c.
 *
 * The section is recorded in the ring buffer of its CPU. If it is the longest so far, that
 * buffer is swapped with the spare one, which the file `trace` shows.
 */
#include "tracer.h"
#include "tracepoint.h"

struct latency_control latency;
struct critical_section critical_sections[LATENCY_CPUS];
struct max_trace_data max_trace;

#define CALLER_IP ((unsigned long)__builtin_return_address(0))
#define this_section() (&critical_sections[this_cpu->cpu % LATENCY_CPUS])

static int preempt_trace(void)
{
	return (this_cpu->trace_type & TRACER_PREEMPT_OFF) && this_cpu->preempt_count;
}

static int irq_trace(u32 irqs_off)
{
	return (this_cpu->trace_type & TRACER_IRQS_OFF) && irqs_off;
}

/* The tracer itself does not count as part of a section, and no section starts inside it. */
int latency_begin(void)
{
	if (this_cpu->trace_recursion || this_cpu->preempt_count & NMI_MASK ||
	    !(this_cpu->buffer.flags & RB_RECORD_ON))
		return 0;
	this_cpu->trace_recursion = trace_context();
	return 1;
}

void latency_end(void)
{
	this_cpu->trace_recursion = 0;
}

void irqsoff_tracer_call(unsigned long ip, unsigned long parent_ip, void *op,
			 struct pt_regs *regs)
{
	if (!this_section()->tracing)
		return;
	if (!this_cpu->irqs_disabled && !this_cpu->preempt_count)
		return;
	function_trace_call(ip, parent_ip, op, regs);
}

int report_latency(u64 delta)
{
	return latency.thresh ? delta >= latency.thresh : delta > latency.max_latency;
}

/*
 * The read and the write are in one block, and no slice ends inside a block: so this is
 * atomic to other CPUs. (On some ports, no atomic instruction works on the tracer's memory.)
 */
static u32 lock_taken(void)
{
	u32 taken = *(volatile u32 *)&latency.lock;

	*(volatile u32 *)&latency.lock = 1;
	return taken;
}

void latency_lock(void)
{
	while (lock_taken())
		;
}

void latency_unlock(void)
{
	*(volatile u32 *)&latency.lock = 0;
}

/* Keep the buffer of this CPU, or of all; the caller has described the time it covers. */
void update_max_tr(const struct task_fields *task, u32 cpu, u32 all)
{
	max_trace.saved_latency = latency.max_latency;
	max_trace.cpu = cpu;
	max_trace.pid = task->pid;
	for (int n = 0; n < TASK_COMM_LEN; n++)
		max_trace.comm[n] = task->comm[n];
	max_trace.nice = task->static_prio - 120;
	max_trace.policy = task->policy;
	max_trace.rt_priority = task->rt_priority;
	hypercall(HC_UPDATE_MAX_TR, all, 0, 0, 0);
}

static void update_max_tr_single(const struct critical_section *section, unsigned long end)
{
	max_trace.time_start = section->preempt_timestamp;
	max_trace.critical_start = section->start;
	max_trace.critical_end = end;
	update_max_tr((const struct task_fields *)(unsigned long)this_cpu->current_task,
		      this_cpu->cpu, 0);
}

static __attribute__((noinline)) void check_critical_timing(struct critical_section *section,
							     unsigned long ip,
							     unsigned long parent_ip,
							     u32 irqs_off)
{
	u64 delta = ftrace_now() - section->preempt_timestamp;
	unsigned long end = parent_ip ? parent_ip : ip;

	if (!report_latency(delta))
		goto out;
	latency_lock();
	if (!report_latency(delta)) /* another CPU has recorded a longer one */
		goto unlock;
	trace_function(CALLER_IP, end, irqs_off);
	trace_stack_from(ip, irqs_off);
	/* Another section was kept while this one ran, and may have disturbed it. */
	if (section->sequence != latency.sequence)
		goto unlock;
	latency.max_latency = delta;
	update_max_tr_single(section, end);
	latency.sequence++;
unlock:
	latency_unlock();
out:
	section->sequence = latency.sequence;
	section->preempt_timestamp = ftrace_now();
	trace_function(CALLER_IP, end, irqs_off);
}

static __attribute__((noinline)) void start_critical_timing(unsigned long ip,
							     unsigned long parent_ip, u32 irqs_off)
{
	struct critical_section *section = this_section();

	if (section->tracing || !latency_begin())
		return;
	section->sequence = latency.sequence;
	section->preempt_timestamp = ftrace_now();
	section->start = parent_ip ? parent_ip : ip;
	trace_function(ip, parent_ip, irqs_off);
	section->tracing = 1;
	latency_end();
}

static inline __attribute__((always_inline)) void
stop_critical_timing(unsigned long ip, unsigned long parent_ip, u32 irqs_off)
{
	struct critical_section *section = this_section();

	if (!section->tracing)
		return;
	section->tracing = 0;
	if (!section->start || !latency_begin())
		return;
	trace_function(ip, parent_ip, irqs_off);
	check_critical_timing(section, ip, parent_ip, irqs_off);
	section->start = 0;
	latency_end();
}

static u32 irq_save(void)
{
	u32 irqs_off = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	return irqs_off;
}

void tracer_hardirqs_off(unsigned long ip, unsigned long parent_ip)
{
	u32 irqs_off = irq_save();

	if (!preempt_trace() && irq_trace(irqs_off))
		start_critical_timing(ip, parent_ip, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}

void tracer_hardirqs_on(unsigned long ip, unsigned long parent_ip)
{
	u32 irqs_off = irq_save();

	if (!preempt_trace() && irq_trace(irqs_off))
		stop_critical_timing(ip, parent_ip, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}

void tracer_preempt_off(unsigned long ip, unsigned long parent_ip)
{
	u32 irqs_off = irq_save();

	if (preempt_trace() && !irq_trace(irqs_off))
		start_critical_timing(ip, parent_ip, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}

void tracer_preempt_on(unsigned long ip, unsigned long parent_ip)
{
	u32 irqs_off = irq_save();

	if (preempt_trace() && !irq_trace(irqs_off))
		stop_critical_timing(ip, parent_ip, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}

/* start_critical_timings() and stop_critical_timings(), around a CPU's sleep. */
void tracer_start_critical(unsigned long ip, unsigned long parent_ip)
{
	u32 irqs_off = irq_save();

	if (preempt_trace() || irq_trace(irqs_off))
		start_critical_timing(ip, parent_ip, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}

void tracer_stop_critical(unsigned long ip, unsigned long parent_ip)
{
	u32 irqs_off = irq_save();

	if (preempt_trace() || irq_trace(irqs_off))
		stop_critical_timing(ip, parent_ip, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}
