// SPDX-License-Identifier: GPL-2.0-or-later
/* Allocation of pids in ascending order. Modelled on kernel/pid.c. */
#include "sched.h"

#define PID_MAX (4 * 1024 * 1024) /* PID_MAX_LIMIT */
#define PID_HASH 32

static struct list_head pid_hash[PID_HASH];
static DEFINE_SPINLOCK(pidmap_lock);
static int last_pid;

static struct task_struct *find_pid_ns(int pid)
{
	struct task_struct *p;

	if (!pid_hash[pid % PID_HASH].next)
		return NULL;
	list_for_each_entry(p, &pid_hash[pid % PID_HASH], pid_chain)
		if (p->pid == pid)
			return p;
	return NULL;
}

struct task_struct *find_task_by_vpid(int pid)
{
	struct task_struct *p;

	spin_lock(&pidmap_lock);
	p = find_pid_ns(pid);
	spin_unlock(&pidmap_lock);
	return p;
}

static void attach_pid(struct task_struct *p)
{
	struct list_head *head = &pid_hash[p->pid % PID_HASH];

	if (!head->next)
		INIT_LIST_HEAD(head);
	list_add(&p->pid_chain, head);
}

int alloc_pid(struct task_struct *p)
{
	spin_lock(&pidmap_lock);
	do {
		last_pid = last_pid + 1 < PID_MAX ? last_pid + 1 : 1;
	} while (find_pid_ns(last_pid));
	p->pid = p->tgid = last_pid;
	attach_pid(p);
	spin_unlock(&pidmap_lock);
	return p->pid;
}

/* The next task gets the pid after `pid`: /proc/sys/kernel/ns_last_pid. Returns the last one. */
notrace int set_last_pid(int pid)
{
	int old;

	spin_lock(&pidmap_lock);
	old = last_pid;
	last_pid = pid;
	spin_unlock(&pidmap_lock);
	return old;
}

void free_pid(struct task_struct *p)
{
	spin_lock(&pidmap_lock);
	list_del_init(&p->pid_chain);
	spin_unlock(&pidmap_lock);
}
