// SPDX-License-Identifier: GPL-2.0-or-later
/* Many readers or one writer. Modelled on kernel/locking/rwsem.c. */
#include "module.h"
#include "sched.h"

void init_rwsem(struct rw_semaphore *sem)
{
	spin_lock_init(&sem->wait_lock);
	sem->count = 0;
	init_waitqueue_head(&sem->wait);
}

static int rwsem_try(struct rw_semaphore *sem, int write)
{
	int got;

	_raw_spin_lock(&sem->wait_lock);
	got = write ? sem->count == 0 : sem->count >= 0;
	if (got)
		sem->count += write ? -1 : 1;
	_raw_spin_unlock(&sem->wait_lock);
	return got;
}

static void rwsem_wake(struct rw_semaphore *sem, int delta)
{
	int idle;

	_raw_spin_lock(&sem->wait_lock);
	sem->count += delta;
	idle = sem->count == 0;
	_raw_spin_unlock(&sem->wait_lock);
	if (idle && !list_empty(&sem->wait.head))
		wake_up_all(&sem->wait);
}

void down_read(struct rw_semaphore *sem)
{
	wait_event(&sem->wait, rwsem_try(sem, 0));
}

void up_read(struct rw_semaphore *sem)
{
	rwsem_wake(sem, -1);
}

void down_write(struct rw_semaphore *sem)
{
	wait_event(&sem->wait, rwsem_try(sem, 1));
}

void up_write(struct rw_semaphore *sem)
{
	rwsem_wake(sem, 1);
}
