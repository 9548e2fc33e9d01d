// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A lock that sleeps. Modelled on kernel/locking/mutex.c: an atomic owner
 * word for the fast path, a short spin while the owner runs on another CPU,
 * then a queue.
 */
#include "module.h"
#include "sched.h"

#define MUTEX_FLAG_WAITERS 1ul
#define SPIN_LIMIT 64

struct mutex_waiter {
	struct list_head list;
	struct task_struct *task;
};

void mutex_init(struct mutex *lock)
{
	lock->owner = 0;
	spin_lock_init(&lock->wait_lock);
	INIT_LIST_HEAD(&lock->wait_list);
}
EXPORT_SYMBOL(mutex_init);

static inline int __mutex_trylock(struct mutex *lock)
{
	unsigned long old = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);

	return !(old & ~MUTEX_FLAG_WAITERS) &&
	       __atomic_compare_exchange_n(&lock->owner, &old, (unsigned long)current | old, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Spin briefly while the owner runs; 1: it stopped running or released the lock. */
static int mutex_spin_on_owner(struct mutex *lock)
{
	for (int i = 0; i < SPIN_LIMIT; i++) {
		if (!(__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) & ~MUTEX_FLAG_WAITERS))
			return 1;
		if (need_resched())
			break;
	}
	return 0;
}

static int mutex_optimistic_spin(struct mutex *lock)
{
	while (mutex_spin_on_owner(lock))
		if (__mutex_trylock(lock))
			return 1;
	return 0;
}

static void __mutex_lock_slowpath(struct mutex *lock)
{
	struct mutex_waiter waiter = { .task = current };

	if (mutex_optimistic_spin(lock))
		return;
	_raw_spin_lock(&lock->wait_lock);
	list_add_tail(&waiter.list, &lock->wait_list);
	for (;;) {
		/* Set the flag first: an unlock after this checks the queue. */
		__atomic_fetch_or(&lock->owner, MUTEX_FLAG_WAITERS, __ATOMIC_RELAXED);
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (__mutex_trylock(lock))
			break;
		_raw_spin_unlock(&lock->wait_lock);
		schedule();
		_raw_spin_lock(&lock->wait_lock);
	}
	set_current_state(TASK_RUNNING);
	list_del_init(&waiter.list);
	if (list_empty(&lock->wait_list))
		__atomic_fetch_and(&lock->owner, ~MUTEX_FLAG_WAITERS, __ATOMIC_RELAXED);
	_raw_spin_unlock(&lock->wait_lock);
}

static void __mutex_unlock_slowpath(struct mutex *lock)
{
	_raw_spin_lock(&lock->wait_lock);
	__atomic_fetch_and(&lock->owner, MUTEX_FLAG_WAITERS, __ATOMIC_RELEASE);
	if (!list_empty(&lock->wait_list))
		wake_up_process(
			list_first_entry(&lock->wait_list, struct mutex_waiter, list)->task);
	_raw_spin_unlock(&lock->wait_lock);
}

void mutex_lock(struct mutex *lock)
{
	if (!__mutex_trylock(lock))
		__mutex_lock_slowpath(lock);
}
EXPORT_SYMBOL(mutex_lock);

int mutex_trylock(struct mutex *lock)
{
	return __mutex_trylock(lock);
}
EXPORT_SYMBOL(mutex_trylock);

void mutex_unlock(struct mutex *lock)
{
	unsigned long old = (unsigned long)current;

	if (!__atomic_compare_exchange_n(&lock->owner, &old, 0, 0, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		__mutex_unlock_slowpath(lock);
}
EXPORT_SYMBOL(mutex_unlock);
