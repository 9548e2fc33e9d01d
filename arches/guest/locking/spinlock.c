// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Spinlocks between CPUs. The functions are out of line so that each lock and
 * unlock can be traced. Modelled on kernel/locking/{spinlock,qspinlock}.c.
 */
#include "irq.h"
#include "module.h"

static void queued_spin_lock_slowpath(spinlock_t *lock, u32 ticket)
{
	while (__atomic_load_n(&lock->owner, __ATOMIC_ACQUIRE) != ticket)
		;
}

static inline void do_raw_spin_lock(spinlock_t *lock)
{
	u32 ticket = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED);

	if (unlikely(__atomic_load_n(&lock->owner, __ATOMIC_ACQUIRE) != ticket))
		queued_spin_lock_slowpath(lock, ticket);
}

static inline void do_raw_spin_unlock(spinlock_t *lock)
{
	__atomic_store_n(&lock->owner, lock->owner + 1, __ATOMIC_RELEASE);
}

void _raw_spin_lock(spinlock_t *lock)
{
	preempt_disable();
	do_raw_spin_lock(lock);
}
EXPORT_SYMBOL(_raw_spin_lock);

void _raw_spin_unlock(spinlock_t *lock)
{
	do_raw_spin_unlock(lock);
	preempt_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock);

int _raw_spin_trylock(spinlock_t *lock)
{
	u32 owner;

	preempt_disable();
	owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(&lock->next, &owner, owner + 1, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return 1;
	preempt_enable();
	return 0;
}
EXPORT_SYMBOL(_raw_spin_trylock);

void _raw_spin_lock_irq(spinlock_t *lock)
{
	local_irq_disable();
	preempt_disable();
	do_raw_spin_lock(lock);
}
EXPORT_SYMBOL(_raw_spin_lock_irq);

void _raw_spin_unlock_irq(spinlock_t *lock)
{
	do_raw_spin_unlock(lock);
	local_irq_enable();
	preempt_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock_irq);

unsigned long _raw_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags = local_irq_save();

	preempt_disable();
	do_raw_spin_lock(lock);
	return flags;
}
EXPORT_SYMBOL(_raw_spin_lock_irqsave);

void _raw_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	do_raw_spin_unlock(lock);
	local_irq_restore(flags);
	preempt_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock_irqrestore);

void _raw_spin_lock_bh(spinlock_t *lock)
{
	local_bh_disable();
	do_raw_spin_lock(lock);
}
EXPORT_SYMBOL(_raw_spin_lock_bh);

void _raw_spin_unlock_bh(spinlock_t *lock)
{
	do_raw_spin_unlock(lock);
	local_bh_enable();
}
EXPORT_SYMBOL(_raw_spin_unlock_bh);
