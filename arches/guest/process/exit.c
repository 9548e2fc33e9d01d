// SPDX-License-Identifier: GPL-2.0-or-later
/* Task exit, and waiting for it. Modelled on kernel/exit.c. */
#include "events.h"
#include "fs.h"
#include "sched.h"
#include "tracepoint.h"

struct task_struct *child_reaper = &init_task;

static void __unhash_process(struct task_struct *p)
{
	list_del_init(&p->tasks);
	list_del_init(&p->sibling);
	nr_threads--;
}

/* The task is reaped: unhash it and drop the reaper's reference. */
void release_task(struct task_struct *p)
{
	spin_lock(&tasklist_lock);
	__unhash_process(p);
	spin_unlock(&tasklist_lock);
	free_pid(p);
	event_sched_process_free(p);
	trace_sched_process(&__tracepoint_sched_process_free, p, NULL);
	put_task_struct(p);
}

static struct task_struct *find_new_reaper(void)
{
	return child_reaper;
}

static void reparent_leader(struct task_struct *child, struct task_struct *reaper)
{
	child->parent = reaper;
	list_del_init(&child->sibling);
	list_add_tail(&child->sibling, &reaper->children);
}

static void forget_original_parent(struct task_struct *father)
{
	struct task_struct *child, *next, *reaper;

	if (list_empty(&father->children))
		return;
	reaper = find_new_reaper();
	list_for_each_entry_safe(child, next, &father->children, sibling)
		reparent_leader(child, reaper);
	wake_up_all(&reaper->wait_chldexit);
}

/* Nobody handles signals here, so SIGCHLD is ignored, as it is by default. */
static void send_signal_locked(int sig, int code, struct task_struct *p)
{
	event_signal_generate(sig, code, p, TRACE_SIGNAL_IGNORED);
}

static void do_notify_parent(struct task_struct *p)
{
	send_signal_locked(SIGCHLD, CLD_EXITED, p->parent);
	wake_up_all(&p->parent->wait_chldexit);
}

static void exit_notify(struct task_struct *p)
{
	int autoreap = p->flags & (PF_KTHREAD | PF_AUTOREAP);

	spin_lock(&tasklist_lock);
	forget_original_parent(p);
	p->exit_state = autoreap ? EXIT_DEAD : EXIT_ZOMBIE;
	if (!autoreap)
		do_notify_parent(p);
	spin_unlock(&tasklist_lock);
	if (autoreap)
		release_task(p);
}

void do_exit(int code)
{
	struct task_struct *p = current;

	if (p->pid == 1)
		panic("Attempted to kill init! exitcode=0x%x", code);
	p->flags |= PF_EXITING;
	p->exit_code = code;
	event_sched_process_exit(p);
	exit_mm(p);
	exit_files(p);
	exit_fs(p);
	if (p->kthread)
		kthread_exited(p);
	exit_notify(p);
	do_task_dead();
}

static int wait_task_zombie(struct task_struct *p, int *status)
{
	int pid = p->pid;

	if (status)
		*status = p->exit_code;
	release_task(p);
	return pid;
}

/* Claim a zombie child, so that no other waiter finds it. */
static struct task_struct *wait_consider_children(int pid, int *any)
{
	struct task_struct *p, *found = NULL;

	*any = 0;
	spin_lock(&tasklist_lock);
	list_for_each_entry(p, &current->children, sibling) {
		if ((pid > 0 && p->pid != pid) || (p->flags & PF_AUTOREAP))
			continue;
		*any = 1;
		if (p->exit_state == EXIT_ZOMBIE) {
			p->exit_state = EXIT_DEAD;
			found = p;
			break;
		}
	}
	spin_unlock(&tasklist_lock);
	return found;
}

static int do_wait(int pid, int *status, int nohang)
{
	wait_queue_entry_t wait;
	struct task_struct *child;
	int any, ret = 0;

	init_wait_entry(&wait, 0);
	for (;;) {
		prepare_to_wait(&current->wait_chldexit, &wait, TASK_INTERRUPTIBLE);
		child = wait_consider_children(pid, &any);
		if (child || !any || nohang)
			break;
		schedule();
	}
	finish_wait(&current->wait_chldexit, &wait);
	if (child)
		ret = wait_task_zombie(child, status);
	else if (!any)
		ret = -ECHILD;
	return ret;
}

/* Wait for the child `pid` (-1: any); return its pid, or 0 with nohang if none exited. */
int kernel_wait4(int pid, int *status, int nohang)
{
	return do_wait(pid, status, nohang);
}
