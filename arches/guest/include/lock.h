/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spinning and sleeping locks, wait queues and completions. Modelled
 * on linux/{spinlock,mutex,rwsem,wait,completion}.h.
 */
#ifndef LOCK_H
#define LOCK_H

#include "preempt.h"

struct task_struct;

/* A ticket lock: waiters on all CPUs get the lock in the order they asked. */
typedef struct {
	u32 next, owner;
} spinlock_t;

#define SPIN_LOCK_UNLOCKED { 0, 0 }
#define DEFINE_SPINLOCK(name) spinlock_t name = SPIN_LOCK_UNLOCKED

void _raw_spin_lock(spinlock_t *lock);
void _raw_spin_unlock(spinlock_t *lock);
int _raw_spin_trylock(spinlock_t *lock);
void _raw_spin_lock_irq(spinlock_t *lock);
void _raw_spin_unlock_irq(spinlock_t *lock);
unsigned long _raw_spin_lock_irqsave(spinlock_t *lock);
void _raw_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
void _raw_spin_lock_bh(spinlock_t *lock);
void _raw_spin_unlock_bh(spinlock_t *lock);

#define spin_lock_init(l) ((l)->next = (l)->owner = 0)
#define spin_lock _raw_spin_lock
#define spin_unlock _raw_spin_unlock
#define spin_trylock _raw_spin_trylock
#define spin_lock_irq _raw_spin_lock_irq
#define spin_unlock_irq _raw_spin_unlock_irq
#define spin_lock_irqsave(l, f) ((f) = _raw_spin_lock_irqsave(l))
#define spin_unlock_irqrestore _raw_spin_unlock_irqrestore
#define spin_lock_bh _raw_spin_lock_bh
#define spin_unlock_bh _raw_spin_unlock_bh

typedef struct wait_queue_head {
	spinlock_t lock;
	struct list_head head;
} wait_queue_head_t;

typedef struct wait_queue_entry {
	struct task_struct *task;
	int (*func)(struct wait_queue_entry *entry, unsigned int mode);
	struct list_head entry;
	int exclusive;
} wait_queue_entry_t;

#define WAIT_QUEUE_HEAD_INIT(name) { SPIN_LOCK_UNLOCKED, LIST_HEAD_INIT((name).head) }
#define DECLARE_WAIT_QUEUE_HEAD(name) wait_queue_head_t name = WAIT_QUEUE_HEAD_INIT(name)

void init_waitqueue_head(wait_queue_head_t *wq);
void init_wait_entry(wait_queue_entry_t *wait, int exclusive);
void prepare_to_wait(wait_queue_head_t *wq, wait_queue_entry_t *wait, unsigned int state);
void finish_wait(wait_queue_head_t *wq, wait_queue_entry_t *wait);
int autoremove_wake_function(wait_queue_entry_t *wait, unsigned int mode);
void __wake_up(wait_queue_head_t *wq, unsigned int mode, int nr_exclusive);
void schedule(void);

#define wake_up(wq) __wake_up(wq, TASK_NORMAL, 1)
#define wake_up_all(wq) __wake_up(wq, TASK_NORMAL, 0)
#define wait_event_state(wq, condition, state)                                  \
	do {                                                                    \
		wait_queue_entry_t wait_;                                       \
		init_wait_entry(&wait_, 0);                                     \
		for (;;) {                                                      \
			prepare_to_wait(wq, &wait_, state);                     \
			if (condition)                                          \
				break;                                          \
			schedule();                                             \
		}                                                               \
		finish_wait(wq, &wait_);                                        \
	} while (0)
#define wait_event(wq, condition)                                               \
	do {                                                                    \
		if (!(condition))                                               \
			wait_event_state(wq, condition, TASK_UNINTERRUPTIBLE);  \
	} while (0)
#define wait_event_interruptible(wq, condition)                                 \
	do {                                                                    \
		if (!(condition))                                               \
			wait_event_state(wq, condition, TASK_INTERRUPTIBLE);    \
	} while (0)

struct mutex {
	unsigned long owner; /* address of the owner, 0 if free; bit 0: has waiters */
	spinlock_t wait_lock;
	struct list_head wait_list;
};

#define MUTEX_INIT(name) { 0, SPIN_LOCK_UNLOCKED, LIST_HEAD_INIT((name).wait_list) }
#define DEFINE_MUTEX(name) struct mutex name = MUTEX_INIT(name)

void mutex_init(struct mutex *lock);
void mutex_lock(struct mutex *lock);
int mutex_trylock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);

struct rw_semaphore {
	spinlock_t wait_lock;
	int count; /* number of readers, or -1 for a writer */
	wait_queue_head_t wait;
};

void init_rwsem(struct rw_semaphore *sem);
void down_read(struct rw_semaphore *sem);
void up_read(struct rw_semaphore *sem);
void down_write(struct rw_semaphore *sem);
void up_write(struct rw_semaphore *sem);

struct completion {
	unsigned int done;
	wait_queue_head_t wait;
};

void init_completion(struct completion *x);
void complete(struct completion *x);
void wait_for_completion(struct completion *x);

#include "word.h"

#endif
