// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Picks the next task: the one with the least run time. Modelled on
 * kernel/sched/fair.c, with a sorted list for the red-black tree and one
 * weight for all. The few tasks of SCHED_FIFO are in the same list.
 */
#include "rq.h"
#include "events.h"

#define SCHED_LATENCY (3 * NSEC_PER_JIFFY)
#define WAKEUP_GRANULARITY (NSEC_PER_JIFFY / 2)
#define SCHED_SLICE NSEC_PER_JIFFY

static void update_min_vruntime(struct rq *rq)
{
	u64 v = rq->curr == rq->idle ? rq->min_vruntime : rq->curr->vruntime;

	if (!list_empty(&rq->queue)) {
		struct task_struct *first = list_first_entry(&rq->queue, struct task_struct, run_list);

		if (rq->curr == rq->idle || (s64)(first->vruntime - v) < 0)
			v = first->vruntime;
	}
	if ((s64)(v - rq->min_vruntime) > 0)
		rq->min_vruntime = v;
}

/* Charge the running task for the time since the last call. */
void update_curr(struct rq *rq)
{
	struct task_struct *curr = rq->curr;
	s64 delta;

	if (curr == rq->idle)
		return;
	delta = rq->clock - curr->exec_start;
	if (delta <= 0)
		return;
	curr->exec_start = rq->clock;
	curr->sum_exec_runtime += delta;
	curr->vruntime += delta;
	update_min_vruntime(rq);
}

/* Tasks of SCHED_FIFO come first, by priority. */
static inline int entity_before(const struct task_struct *a, const struct task_struct *b)
{
	if (rt_task(a) || rt_task(b))
		return a->prio < b->prio;
	return (s64)(a->vruntime - b->vruntime) < 0;
}

static void __enqueue_entity(struct rq *rq, struct task_struct *p)
{
	struct task_struct *pos;

	list_for_each_entry(pos, &rq->queue, run_list)
		if (entity_before(p, pos))
			break;
	list_insert(&p->run_list, pos->run_list.prev, &pos->run_list);
}

static void __dequeue_entity(struct rq *rq, struct task_struct *p)
{
	list_del_init(&p->run_list);
}

/* A task that slept or migrated starts near the front of this queue. */
static void place_entity(struct rq *rq, struct task_struct *p)
{
	s64 ahead = p->vruntime - rq->min_vruntime;

	if (ahead < -(s64)SCHED_LATENCY / 2 || ahead > (s64)SCHED_LATENCY)
		p->vruntime = rq->min_vruntime - SCHED_LATENCY / 2;
}

static void enqueue_entity(struct rq *rq, struct task_struct *p)
{
	place_entity(rq, p);
	__enqueue_entity(rq, p);
}

void enqueue_task_fair(struct rq *rq, struct task_struct *p)
{
	update_curr(rq);
	enqueue_entity(rq, p);
	rq->nr_running++;
}

/* The running task is not in the queue; remove a waiting one. */
void dequeue_task_fair(struct rq *rq, struct task_struct *p)
{
	update_curr(rq);
	if (p != rq->curr)
		__dequeue_entity(rq, p);
	rq->nr_running--;
}

void set_next_entity(struct rq *rq, struct task_struct *p)
{
	__dequeue_entity(rq, p);
	p->exec_start = rq->clock;
	p->slice_start = p->sum_exec_runtime;
}

struct task_struct *pick_next_task_fair(struct rq *rq)
{
	struct task_struct *p;

	if (list_empty(&rq->queue))
		return NULL;
	p = list_first_entry(&rq->queue, struct task_struct, run_list);
	set_next_entity(rq, p);
	return p;
}

/* The running task leaves the CPU; requeue it if it is still runnable. */
void put_prev_task_fair(struct rq *rq, struct task_struct *p)
{
	update_curr(rq);
	if (p->on_rq)
		__enqueue_entity(rq, p);
}

static inline int wakeup_preempt_entity(struct task_struct *curr, struct task_struct *p)
{
	if (rt_task(curr) || rt_task(p))
		return p->prio < curr->prio;
	return (s64)(curr->vruntime - p->vruntime) > (s64)WAKEUP_GRANULARITY;
}

void check_preempt_wakeup(struct rq *rq, struct task_struct *p)
{
	update_curr(rq);
	if (p != rq->curr && wakeup_preempt_entity(rq->curr, p))
		resched_curr(rq);
}

static void check_preempt_tick(struct rq *rq, struct task_struct *curr)
{
	if (!rt_task(curr) && curr->sum_exec_runtime - curr->slice_start >= SCHED_SLICE)
		resched_curr(rq);
}

static void entity_tick(struct rq *rq, struct task_struct *curr)
{
	update_curr(rq);
	if (rq->nr_running > 1)
		check_preempt_tick(rq, curr);
}

void task_tick_fair(struct rq *rq, struct task_struct *curr)
{
	entity_tick(rq, curr);
}

void task_fork_fair(struct rq *rq, struct task_struct *p)
{
	update_rq_clock(rq);
	update_curr(rq);
	p->vruntime = rq->min_vruntime;
}

static inline int available_idle_cpu(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	return READ_ONCE(rq->curr) == rq->idle && !READ_ONCE(rq->nr_running);
}

static int select_idle_sibling(struct task_struct *p, int target)
{
	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		if ((p->cpus_allowed & cpu_online_mask & (1u << cpu)) && available_idle_cpu(cpu))
			return cpu;
	return target;
}

static int find_idlest_cpu(struct task_struct *p)
{
	int best = -1;

	for (int cpu = 0; cpu < NR_CPUS; cpu++)
		if ((p->cpus_allowed & cpu_online_mask & (1u << cpu)) &&
		    (best < 0 || cpu_rq(cpu)->nr_running < cpu_rq(best)->nr_running))
			best = cpu;
	return best < 0 ? 0 : best;
}

/* Pick the CPU of a waking task: its previous one if idle, else an idle one. */
int select_task_rq_fair(struct task_struct *p)
{
	int cpu = task_cpu(p);

	if (p->migrate_disable)
		return cpu;
	if (!(p->cpus_allowed & cpu_online_mask & (1u << cpu)))
		return find_idlest_cpu(p);
	if (available_idle_cpu(cpu))
		return cpu;
	return select_idle_sibling(p, cpu);
}

static inline int can_migrate_task(struct task_struct *p, int cpu)
{
	return (p->cpus_allowed & (1u << cpu)) && !p->migrate_disable;
}

static struct task_struct *detach_one_task(struct rq *from, int cpu)
{
	struct task_struct *p;

	list_for_each_entry(p, &from->queue, run_list)
		if (can_migrate_task(p, cpu)) {
			list_del_init(&p->run_list);
			from->nr_running--;
			return p;
		}
	return NULL;
}

static void attach_task(struct rq *rq, struct task_struct *p, struct rq *from)
{
	p->vruntime = p->vruntime - from->min_vruntime + rq->min_vruntime;
	event_sched_migrate_task(p, rq->cpu);
	WRITE_ONCE(p->cpu, rq->cpu);
	__enqueue_entity(rq, p);
	rq->nr_running++;
}

static struct rq *find_busiest_queue(struct rq *this, u32 least)
{
	struct rq *busiest = NULL;

	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		struct rq *rq = cpu_rq(cpu);

		if (rq != this && READ_ONCE(rq->nr_running) >= least &&
		    (!busiest || rq->nr_running > busiest->nr_running))
			busiest = rq;
	}
	return busiest;
}

/*
 * Pull one waiting task from the busiest CPU; `this` is locked. The other queue
 * is only trylocked: two CPUs that pull from each other would otherwise
 * deadlock.
 */
static int load_balance(struct rq *this, u32 least)
{
	struct rq *busiest = find_busiest_queue(this, least);
	struct task_struct *p;

	if (!busiest || !_raw_spin_trylock(&busiest->lock))
		return 0;
	p = detach_one_task(busiest, this->cpu);
	if (p)
		attach_task(this, p, busiest);
	_raw_spin_unlock(&busiest->lock);
	return p != NULL;
}

/* About to go idle: look for work on other CPUs first. */
int newidle_balance(struct rq *this)
{
	return load_balance(this, 2);
}

/* SCHED_SOFTIRQ: move one task if the difference is two or more. */
static void run_rebalance_domains(void)
{
	unsigned long flags = local_irq_save();
	struct rq *this = this_rq();

	_raw_spin_lock(&this->lock);
	update_rq_clock(this);
	if (load_balance(this, this->nr_running + 2) && this->curr == this->idle)
		resched_curr(this);
	_raw_spin_unlock(&this->lock);
	local_irq_restore(flags);
}

void trigger_load_balance(struct rq *rq)
{
	if (((jiffies + rq->cpu) & 3) == 0)
		raise_softirq_irqoff(SCHED_SOFTIRQ);
}

void init_sched_fair_class(void)
{
	open_softirq(SCHED_SOFTIRQ, run_rebalance_domains);
}
