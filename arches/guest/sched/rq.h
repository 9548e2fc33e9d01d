/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The run queue, shared by the files of sched/. Modelled on kernel/sched/sched.h. */
#ifndef SCHED_RQ_H
#define SCHED_RQ_H

#include "irq.h"
#include "sched.h"

/*
 * One for each CPU. Its lock is held across the context switch and released by
 * the next task. So the lock's holder never sees a task of this queue in the
 * middle of a switch.
 */
struct rq {
	spinlock_t lock;
	int cpu;
	u32 nr_running; /* number of tasks, including the running one, without idle */
	struct task_struct *curr, *idle;
	struct list_head queue; /* runnable tasks sorted by vruntime, without curr */
	u64 clock;
	u64 min_vruntime;
	unsigned long nr_switches;
	int ipi_sent; /* a reschedule of this CPU is pending */
};

extern struct rq runqueues[NR_CPUS];
#define cpu_rq(cpu) (&runqueues[cpu])
#define this_rq() cpu_rq(smp_processor_id())

void update_rq_clock(struct rq *rq);
void resched_curr(struct rq *rq);
void activate_task(struct rq *rq, struct task_struct *p);
void deactivate_task(struct rq *rq, struct task_struct *p);

/* fair.c */
void enqueue_task_fair(struct rq *rq, struct task_struct *p);
void dequeue_task_fair(struct rq *rq, struct task_struct *p);
struct task_struct *pick_next_task_fair(struct rq *rq);
void put_prev_task_fair(struct rq *rq, struct task_struct *p);
void set_next_entity(struct rq *rq, struct task_struct *p);
void check_preempt_wakeup(struct rq *rq, struct task_struct *p);
void task_tick_fair(struct rq *rq, struct task_struct *curr);
void task_fork_fair(struct rq *rq, struct task_struct *p);
void update_curr(struct rq *rq);
int select_task_rq_fair(struct task_struct *p);
int newidle_balance(struct rq *this);
void trigger_load_balance(struct rq *rq);
void init_sched_fair_class(void);

#endif
