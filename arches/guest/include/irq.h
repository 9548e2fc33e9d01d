/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interrupts, softirqs, time, timers, RCU and work queues. Modelled on
 * linux/{interrupt,timer,timekeeping,rcupdate,workqueue}.h. */
#ifndef IRQ_H
#define IRQ_H

#include "lock.h"

struct pt_regs; /* owned by the machine; only its address is used */

#define NR_VECTORS 7
#define IRQ_NONE 0
#define IRQ_HANDLED 1

typedef int (*irq_handler_t)(int irq, void *dev);

void init_IRQ(void);
int request_irq(int irq, irq_handler_t handler, const char *name, void *dev);
void free_irq(int irq);
unsigned long kstat_irqs(int irq);
unsigned long kstat_irqs_cpu(int irq, int cpu);
void nmi_init(void);
int nmi_handle(struct pt_regs *regs);
int nmi_handle_traced(struct pt_regs *regs);
void irq_enter(void);
void irq_exit(void);

enum {
	HI_SOFTIRQ, TIMER_SOFTIRQ, NET_RX_SOFTIRQ, TASKLET_SOFTIRQ, SCHED_SOFTIRQ,
	RCU_SOFTIRQ, NR_SOFTIRQS,
};

void softirq_init(void);
void spawn_ksoftirqd(void);
void open_softirq(int nr, void (*action)(void));
void raise_softirq(int nr);
void raise_softirq_irqoff(int nr);
void __do_softirq(void);

struct tasklet_struct {
	struct list_head list;
	int scheduled;
	void (*func)(unsigned long);
	unsigned long data;
};

void tasklet_init(struct tasklet_struct *t, void (*func)(unsigned long), unsigned long data);
void tasklet_schedule(struct tasklet_struct *t);

extern volatile unsigned long jiffies;
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define NSEC_PER_JIFFY TICK_NS

u64 sched_clock(void);
u64 ktime_get(void);
void timekeeping_init(void);
void time_init(void);
void tick_init(void);
int timer_interrupt(int irq, void *dev);
unsigned long get_seconds(void);

struct timer_list {
	struct list_head entry;
	unsigned long expires; /* jiffies */
	void (*function)(struct timer_list *timer);
	struct timer_base *base; /* set while pending or running */
};

void init_timers(void);
void timer_setup(struct timer_list *t, void (*fn)(struct timer_list *));
int mod_timer(struct timer_list *t, unsigned long expires);
void add_timer(struct timer_list *t);
int del_timer(struct timer_list *t);
int del_timer_sync(struct timer_list *t);
void run_local_timers(void);
long schedule_timeout(long timeout);
long schedule_timeout_interruptible(long timeout);
void msleep(unsigned int ms);
int hrtimer_nanosleep(unsigned long ns);

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};

void rcu_init(void);
void rcu_spawn_gp_kthread(void);
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *));
void synchronize_rcu(void);
void rcu_sched_clock_irq(int idle_or_user);
void rcu_note_context_switch(void);
void stop_critical_timings(void);
void start_critical_timings(void);

#define rcu_read_lock() preempt_disable()
#define rcu_read_unlock() preempt_enable()

struct irq_work {
	struct irq_work *next;
	u32 pending; /* on the list of a CPU */
	u32 busy;    /* until it has been done */
	void (*func)(struct irq_work *work);
};

void irq_work_init(void);
void init_irq_work(struct irq_work *work, void (*func)(struct irq_work *work));
int irq_work_queue(struct irq_work *work);
void irq_work_sync(struct irq_work *work);

struct work_struct {
	struct list_head entry;
	int pending;
	void (*func)(struct work_struct *work);
};

struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
};

void workqueue_init(void);
void INIT_WORK(struct work_struct *work, void (*func)(struct work_struct *));
void INIT_DELAYED_WORK(struct delayed_work *dw, void (*func)(struct work_struct *));
int queue_work_on(int cpu, struct work_struct *work);
int schedule_work(struct work_struct *work);
int schedule_delayed_work(struct delayed_work *dw, unsigned long delay);
int cancel_delayed_work_sync(struct delayed_work *dw);
void flush_work(struct work_struct *work);

#endif
