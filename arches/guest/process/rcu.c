// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Read-copy-update: a callback runs after every CPU has been outside of read
 * sections. Modelled on kernel/rcu/tree.c: one node, one grace
 * period at a time, run by the task rcu_sched.
 */
#include "irq.h"
#include "module.h"
#include "sched.h"

static struct {
	spinlock_t lock;
	unsigned long gp_seq;
	u32 qsmask;                 /* CPUs that the grace period still waits for */
	struct rcu_head *waiting;   /* callbacks waiting for a grace period to start */
	struct rcu_head *current_gp; /* callbacks waiting for the current grace period */
	struct rcu_head *done;      /* callbacks ready to run */
} rcu_state;

static int rcu_gp_in_progress(void)
{
	return READ_ONCE(rcu_state.current_gp) != NULL;
}

static void rcu_report_qs_rdp(u32 bit)
{
	unsigned long flags;

	spin_lock_irqsave(&rcu_state.lock, flags);
	rcu_state.qsmask &= ~bit;
	spin_unlock_irqrestore(&rcu_state.lock, flags);
}

/* This CPU is outside read sections, which never sleep and are not preempted. */
static inline void rcu_qs(void)
{
	u32 bit = 1u << smp_processor_id();

	if (READ_ONCE(rcu_state.qsmask) & bit)
		rcu_report_qs_rdp(bit);
}

void rcu_note_context_switch(void)
{
	rcu_qs();
}

void rcu_sched_clock_irq(int idle)
{
	/* The idle task runs at preemption depth 1 and has no read sections. */
	if ((preempt_count() & (PREEMPT_MASK | SOFTIRQ_MASK)) <= (idle ? 1 : 0))
		rcu_qs();
	if (READ_ONCE(rcu_state.done) && smp_processor_id() == 0)
		raise_softirq_irqoff(RCU_SOFTIRQ);
}

static void rcu_do_batch(struct rcu_head *head)
{
	while (head) {
		struct rcu_head *next = head->next;

		head->func(head);
		head = next;
	}
}

static void rcu_core(void)
{
	struct rcu_head *list;

	_raw_spin_lock_irq(&rcu_state.lock);
	list = rcu_state.done;
	rcu_state.done = NULL;
	_raw_spin_unlock_irq(&rcu_state.lock);
	rcu_do_batch(list);
}

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	unsigned long flags;

	head->func = func;
	spin_lock_irqsave(&rcu_state.lock, flags);
	head->next = rcu_state.waiting;
	rcu_state.waiting = head;
	spin_unlock_irqrestore(&rcu_state.lock, flags);
}
EXPORT_SYMBOL(call_rcu);

struct rcu_synchronize {
	struct rcu_head head;
	struct completion completion;
};

static void wakeme_after_rcu(struct rcu_head *head)
{
	complete(&container_of(head, struct rcu_synchronize, head)->completion);
}

void synchronize_rcu(void)
{
	struct rcu_synchronize rs;

	init_completion(&rs.completion);
	call_rcu(&rs.head, wakeme_after_rcu);
	wait_for_completion(&rs.completion);
}
EXPORT_SYMBOL(synchronize_rcu);

static int rcu_gp_init(void)
{
	_raw_spin_lock_irq(&rcu_state.lock);
	if (rcu_state.waiting) {
		rcu_state.current_gp = rcu_state.waiting;
		rcu_state.waiting = NULL;
		rcu_state.qsmask = cpu_online_mask;
		rcu_state.gp_seq++;
	}
	_raw_spin_unlock_irq(&rcu_state.lock);
	return rcu_gp_in_progress();
}

static void rcu_gp_fqs_loop(void)
{
	while (READ_ONCE(rcu_state.qsmask))
		schedule_timeout_interruptible(1);
}

static void rcu_gp_cleanup(void)
{
	struct rcu_head **tail;

	_raw_spin_lock_irq(&rcu_state.lock);
	for (tail = &rcu_state.done; *tail; tail = &(*tail)->next)
		;
	*tail = rcu_state.current_gp;
	rcu_state.current_gp = NULL;
	_raw_spin_unlock_irq(&rcu_state.lock);
}

static int rcu_gp_kthread(void *unused)
{
	for (;;) {
		schedule_timeout_interruptible(4);
		if (!rcu_gp_init())
			continue;
		rcu_gp_fqs_loop();
		rcu_gp_cleanup();
	}
	return 0;
}

void rcu_init(void)
{
	open_softirq(RCU_SOFTIRQ, rcu_core);
}

/* As with CONFIG_RCU_BOOST, the thread is a real-time task of the lowest priority. */
void rcu_spawn_gp_kthread(void)
{
	struct task_struct *t = kthread_create(rcu_gp_kthread, NULL, "rcu_sched");

	if (IS_ERR(t))
		return;
	sched_set_fifo(t, 1);
	wake_up_process(t);
}
