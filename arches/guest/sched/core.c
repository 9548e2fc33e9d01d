// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * schedule(), wakeup and preemption. Modelled on kernel/sched/core.c: as in the
 * kernel, __schedule() and paths that only it uses are not traced, but the
 * functions it calls are.
 */
#include "rq.h"
#include "events.h"
#include "module.h"
#include "tracepoint.h"

struct rq runqueues[NR_CPUS];

#define task_rq(p) cpu_rq(task_cpu(p))

void update_rq_clock(struct rq *rq)
{
	rq->clock = this_clock->ticks;
}

/* Make `rq`'s CPU call schedule() soon; called with its lock held. */
void resched_curr(struct rq *rq)
{
	if (rq->cpu == smp_processor_id()) {
		this_cpu->need_resched = 1;
	} else if (!rq->ipi_sent) {
		rq->ipi_sent = 1;
		smp_send_reschedule(rq->cpu);
	}
}

/* The remote part of resched_curr(): only its own CPU sees need_resched. */
void scheduler_ipi(void)
{
	this_rq()->ipi_sent = 0;
	this_cpu->need_resched = 1;
}

static void enqueue_task(struct rq *rq, struct task_struct *p)
{
	update_rq_clock(rq);
	enqueue_task_fair(rq, p);
}

static void dequeue_task(struct rq *rq, struct task_struct *p)
{
	update_rq_clock(rq);
	dequeue_task_fair(rq, p);
}

void activate_task(struct rq *rq, struct task_struct *p)
{
	enqueue_task(rq, p);
	p->on_rq = 1;
}

void deactivate_task(struct rq *rq, struct task_struct *p)
{
	p->on_rq = 0;
	dequeue_task(rq, p);
}

static void check_preempt_curr(struct rq *rq, struct task_struct *p)
{
	if (rq->curr == rq->idle)
		resched_curr(rq);
	else
		check_preempt_wakeup(rq, p);
}

static struct rq *task_rq_lock(struct task_struct *p)
{
	for (;;) {
		struct rq *rq = task_rq(p);

		_raw_spin_lock(&rq->lock);
		if (rq == task_rq(p))
			return rq;
		_raw_spin_unlock(&rq->lock);
	}
}

struct tracepoint __tracepoint_sched_wakeup, __tracepoint_sched_migrate_task;
struct tracepoint __tracepoint_sched_switch_task;

static inline void trace_sched_task(const struct tracepoint *tp, struct task_struct *p,
				    struct task_struct *other)
{
	if (unlikely(READ_ONCE(tp->enabled)))
		((sched_task_func)(unsigned long)tp->func)((struct task_fields *)p,
							   (struct task_fields *)other, PARENT_IP);
}

static inline void set_task_cpu(struct task_struct *p, int cpu)
{
	if (task_cpu(p) != cpu)
		event_sched_migrate_task(p, cpu);
	WRITE_ONCE(p->cpu, cpu);
	trace_sched_task(&__tracepoint_sched_migrate_task, p, NULL);
}

static void ttwu_do_wakeup(struct rq *rq, struct task_struct *p)
{
	p->state = TASK_RUNNING;
	check_preempt_curr(rq, p);
	trace_sched_task(&__tracepoint_sched_wakeup, p, NULL);
}

static void ttwu_do_activate(struct rq *rq, struct task_struct *p)
{
	activate_task(rq, p);
	ttwu_do_wakeup(rq, p);
	event_sched_wakeup(p);
}

static void ttwu_queue(struct task_struct *p, int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	_raw_spin_lock(&rq->lock);
	ttwu_do_activate(rq, p);
	_raw_spin_unlock(&rq->lock);
}

/* Wake `p` if it sleeps in one of the states in `state`; return 1 if so. */
int try_to_wake_up(struct task_struct *p, unsigned int state)
{
	unsigned long flags = _raw_spin_lock_irqsave(&p->pi_lock);
	int success = 0;

	if (p->state & state) {
		struct rq *rq;

		event_sched_waking(p);
		rq = task_rq_lock(p);

		if (p->state & state) {
			success = 1;
			if (p->on_rq) { /* about to sleep: now it will not */
				ttwu_do_wakeup(rq, p);
				event_sched_wakeup(p);
				_raw_spin_unlock(&rq->lock);
			} else {
				int cpu;

				p->state = TASK_WAKING;
				_raw_spin_unlock(&rq->lock);
				cpu = select_task_rq_fair(p);
				set_task_cpu(p, cpu);
				ttwu_queue(p, cpu);
			}
		} else {
			_raw_spin_unlock(&rq->lock);
		}
	}
	_raw_spin_unlock_irqrestore(&p->pi_lock, flags);
	return success;
}

int wake_up_process(struct task_struct *p)
{
	return try_to_wake_up(p, TASK_NORMAL);
}
EXPORT_SYMBOL(wake_up_process);

void sched_fork(struct task_struct *p)
{
	p->state = TASK_NEW;
	p->on_rq = p->on_cpu = 0;
	p->vruntime = p->sum_exec_runtime = 0;
	p->nvcsw = p->nivcsw = p->utime = p->stime = 0;
	p->preempt_count = 2; /* schedule()'s count and the run queue lock's */
	p->migrate_disable = 0;
	p->cpus_allowed = current->flags & PF_KTHREAD ? ~0u : current->cpus_allowed;
	spin_lock_init(&p->pi_lock);
	INIT_LIST_HEAD(&p->run_list);
}

void wake_up_new_task(struct task_struct *p)
{
	unsigned long flags = _raw_spin_lock_irqsave(&p->pi_lock);
	int cpu = select_task_rq_fair(p);
	struct rq *rq = cpu_rq(cpu);

	set_task_cpu(p, cpu);
	_raw_spin_lock(&rq->lock);
	task_fork_fair(rq, p);
	activate_task(rq, p);
	ttwu_do_wakeup(rq, p);
	event_sched_wakeup_new(p);
	_raw_spin_unlock(&rq->lock);
	_raw_spin_unlock_irqrestore(&p->pi_lock, flags);
}

static struct task_struct *pick_next_task(struct rq *rq)
{
	struct task_struct *next = pick_next_task_fair(rq);

	if (!next && newidle_balance(rq))
		next = pick_next_task_fair(rq);
	return next ? next : rq->idle;
}

static void prepare_task_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next)
{
	next->on_cpu = 1;
	rq->curr = next;
	rq->nr_switches++;
	if (*(unsigned long *)prev->stack != STACK_END_MAGIC)
		panic("corrupted stack end detected inside scheduler: %s", prev->comm);
}

/* First call on the new task's stack; frees `prev` if this was its last switch. */
static void finish_task_switch(struct task_struct *prev)
{
	struct rq *rq = this_rq();
	unsigned int prev_state = prev->state;

	prev->on_cpu = 0;
	_raw_spin_unlock_irq(&rq->lock);
	if (unlikely(prev_state == TASK_DEAD))
		put_task_struct(prev);
}

struct tracepoint __tracepoint_sched_switch;

static inline void trace_sched_switch(struct task_struct *prev, struct task_struct *next)
{
	if (unlikely(READ_ONCE(__tracepoint_sched_switch.enabled)))
		((sched_switch_func)(unsigned long)__tracepoint_sched_switch.func)(
			&prev->ret_stack, &next->ret_stack);
}

static notrace void context_switch(struct rq *rq, struct task_struct *prev,
				   struct task_struct *next, int preempt)
{
	event_sched_switch(preempt, prev, next);
	trace_sched_switch(prev, next);
	trace_sched_task(&__tracepoint_sched_switch_task, next, prev);
	prepare_task_switch(rq, prev, next);
	if (this_cpu->buffer.flags & (RB_RECORD_CMD | RB_RECORD_TGID))
		tracing_record_switch(prev, next);
	prev->preempt_count = this_cpu->preempt_count;
	prev->migrate_disable = this_cpu->migrate_disable;
	this_cpu->preempt_count = next->preempt_count;
	this_cpu->migrate_disable = next->migrate_disable;
	this_cpu->current_task = ADDR(next);
	this_cpu->ret_stack = ADDR(&next->ret_stack);
	this_cpu->pid = next->pid;
	prev = __switch_to_asm(prev, next);
	barrier();
	finish_task_switch(prev);
}

static notrace void __schedule(int preempt)
{
	struct task_struct *prev = current, *next;
	struct rq *rq;

	local_irq_disable();
	rcu_note_context_switch();
	rq = this_rq();
	_raw_spin_lock(&rq->lock);
	update_rq_clock(rq);
	if (!preempt && prev->state != TASK_RUNNING) {
		deactivate_task(rq, prev);
		prev->nvcsw++;
	} else {
		prev->nivcsw++;
	}
	if (prev != rq->idle)
		put_prev_task_fair(rq, prev);
	next = pick_next_task(rq);
	this_cpu->need_resched = 0;
	if (prev != next) {
		context_switch(rq, prev, next, preempt);
	} else {
		_raw_spin_unlock_irq(&rq->lock);
	}
}

void schedule(void)
{
	do {
		preempt_disable();
		__schedule(0);
		preempt_enable_no_resched();
	} while (need_resched());
}
EXPORT_SYMBOL(schedule);

/* For the console's task: Linux has no such task, so its calls are not traced. */
notrace void schedule_notrace(void)
{
	do {
		preempt_disable();
		__schedule(0);
		preempt_enable_no_resched();
	} while (need_resched());
}

/* For the idle task, which runs with preemption off. */
void schedule_idle(void)
{
	do {
		__schedule(0);
	} while (need_resched());
}

/* preempt_enable() found work for another task. */
notrace void preempt_schedule(void)
{
	do {
		preempt_disable();
		__schedule(1);
		preempt_enable_no_resched();
	} while (need_resched());
}
EXPORT_SYMBOL(preempt_schedule);

/* An interrupt of kernel code ends here, on the stack of the interrupted task. */
void preempt_schedule_irq(void)
{
	do {
		preempt_disable();
		local_irq_enable();
		__schedule(1);
		local_irq_disable();
		preempt_enable_no_resched();
	} while (need_resched());
}

/* A new task starts here, called from switch.S. */
void schedule_tail(struct task_struct *prev)
{
	finish_task_switch(prev);
	preempt_enable();
}

int cond_resched(void)
{
	if (!need_resched() || preempt_count())
		return 0;
	preempt_schedule();
	return 1;
}
EXPORT_SYMBOL(cond_resched);

void sched_yield(void)
{
	unsigned long flags = local_irq_save();
	struct rq *rq = this_rq();

	_raw_spin_lock(&rq->lock);
	update_curr(rq);
	current->vruntime += NSEC_PER_JIFFY;
	_raw_spin_unlock(&rq->lock);
	local_irq_restore(flags);
	schedule();
}

static void sched_clock_tick(struct rq *rq)
{
	update_rq_clock(rq);
}

void scheduler_tick(void)
{
	struct rq *rq = this_rq();

	_raw_spin_lock(&rq->lock);
	sched_clock_tick(rq);
	if (rq->curr != rq->idle)
		task_tick_fair(rq, rq->curr);
	_raw_spin_unlock(&rq->lock);
	trigger_load_balance(rq);
}

void set_cpus_allowed(struct task_struct *p, u32 mask)
{
	unsigned long flags = _raw_spin_lock_irqsave(&p->pi_lock);

	p->cpus_allowed = mask;
	_raw_spin_unlock_irqrestore(&p->pi_lock, flags);
}

void migrate_disable(void)
{
	preempt_disable();
	this_cpu->migrate_disable++;
	preempt_enable();
}

void migrate_enable(void)
{
	preempt_disable();
	this_cpu->migrate_disable--;
	preempt_enable();
}

/* All have the same weight here: the value is only shown, and inherited. */
void set_user_nice(struct task_struct *p, long nice)
{
	nice = nice < -20 ? -20 : nice > 19 ? 19 : nice;
	p->prio = p->static_prio = DEFAULT_PRIO + nice;
}

/* For a task that is not running. */
void sched_set_fifo(struct task_struct *p, unsigned int priority)
{
	p->policy = SCHED_FIFO;
	p->rt_priority = priority;
	p->prio = MAX_RT_PRIO - 1 - priority;
}

void do_task_dead(void)
{
	preempt_disable();
	current->state = TASK_DEAD;
	__schedule(0);
	panic("a dead task runs");
}

unsigned long nr_running(void)
{
	unsigned long n = 0;

	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		n += READ_ONCE(cpu_rq(cpu)->nr_running);
	return n;
}

unsigned long nr_context_switches(void)
{
	unsigned long n = 0;

	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		n += READ_ONCE(cpu_rq(cpu)->nr_switches);
	return n;
}

/* Load average over about a minute, in units of 1/2048; every 50 ms, for the kernel's 5 s. */
unsigned long avenrun;

void calc_global_load(void)
{
	static unsigned long next;

	if (time_after(next, jiffies))
		return;
	next = jiffies + 50;
	avenrun = (avenrun * 1884 + nr_running() * 2048 * 164) >> 11;
}

/* Make a thread the idle task of `cpu`. */
void init_idle(struct task_struct *idle, int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	idle->cpu = cpu;
	idle->on_cpu = 1;
	idle->state = TASK_RUNNING;
	idle->flags |= PF_IDLE | PF_KTHREAD;
	idle->cpus_allowed = 1u << cpu;
	idle->preempt_count = 1;
	rq->curr = rq->idle = idle;
}

void sched_init(void)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct rq *rq = cpu_rq(cpu);

		spin_lock_init(&rq->lock);
		rq->cpu = cpu;
		INIT_LIST_HEAD(&rq->queue);
	}
	init_idle(&init_task, 0);
	init_sched_fair_class();
}
