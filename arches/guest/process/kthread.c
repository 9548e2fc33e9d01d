// SPDX-License-Identifier: GPL-2.0-or-later
/* Kernel threads, created by kthreadd so that they inherit nothing. Modelled on
 * kernel/kthread.c. */
#include "mm.h"
#include "module.h"
#include "sched.h"

struct kthread {
	int should_stop;
	struct completion exited;
};

struct kthread_create_info {
	int (*fn)(void *);
	void *data;
	char name[TASK_COMM_LEN];
	struct task_struct *result;
	struct completion done;
	struct list_head list;
};

struct task_struct *kthreadd_task;
static LIST_HEAD(kthread_create_list);
static DEFINE_SPINLOCK(kthread_create_lock);

static struct kthread *set_kthread_struct(struct task_struct *p)
{
	struct kthread *k = kzalloc(sizeof(*k), GFP_KERNEL);

	if (k)
		init_completion(&k->exited);
	p->kthread = k;
	return k;
}

/* Every kernel thread starts here and sleeps until its first wakeup. */
static int kthread(void *data)
{
	struct kthread_create_info *create = data;
	int (*fn)(void *) = create->fn;
	void *arg = create->data;

	__set_task_comm(current, create->name);
	if (!set_kthread_struct(current)) {
		create->result = ERR_PTR(-ENOMEM);
		complete(&create->done);
		return -ENOMEM;
	}
	create->result = current;
	set_current_state(TASK_UNINTERRUPTIBLE);
	preempt_disable(); /* asleep before the creator can check the state */
	complete(&create->done);
	preempt_enable_no_resched();
	schedule();
	return READ_ONCE(current->kthread->should_stop) ? -EINTR : fn(arg);
}

static void create_kthread(struct kthread_create_info *create)
{
	int pid = kernel_thread(kthread, create, 0);

	if (pid < 0) {
		create->result = ERR_PTR(pid);
		complete(&create->done);
	}
}

static struct kthread_create_info *next_create_request(void)
{
	struct kthread_create_info *create = NULL;

	spin_lock(&kthread_create_lock);
	if (!list_empty(&kthread_create_list)) {
		create = list_first_entry(&kthread_create_list, struct kthread_create_info, list);
		list_del_init(&create->list);
	}
	spin_unlock(&kthread_create_lock);
	return create;
}

int kthreadd(void *unused)
{
	__set_task_comm(current, "kthreadd");
	for (;;) {
		struct kthread_create_info *create;

		set_current_state(TASK_INTERRUPTIBLE);
		if (list_empty(&kthread_create_list))
			schedule();
		set_current_state(TASK_RUNNING);
		while ((create = next_create_request()))
			create_kthread(create);
	}
	return 0;
}

/* Create a thread that runs fn(data) after wake_up_process(). */
struct task_struct *kthread_create(int (*fn)(void *), void *data, const char *fmt, ...)
{
	struct kthread_create_info create = { .fn = fn, .data = data };
	__builtin_va_list args;

	__builtin_va_start(args, fmt);
	vsnprintf(create.name, sizeof(create.name), fmt, args);
	__builtin_va_end(args);
	init_completion(&create.done);
	spin_lock(&kthread_create_lock);
	list_add_tail(&create.list, &kthread_create_list);
	spin_unlock(&kthread_create_lock);
	wake_up_process(kthreadd_task);
	wait_for_completion(&create.done);
	return create.result;
}
EXPORT_SYMBOL(kthread_create);

/* A running thread would stay on its CPU. */
static void wait_task_inactive(struct task_struct *p)
{
	while (READ_ONCE(p->on_rq) || READ_ONCE(p->on_cpu))
		sched_yield();
}

/* Call before the first wakeup of the thread. */
void kthread_bind(struct task_struct *p, int cpu)
{
	wait_task_inactive(p);
	set_cpus_allowed(p, 1u << cpu);
}
EXPORT_SYMBOL(kthread_bind);

int kthread_should_stop(void)
{
	return READ_ONCE(current->kthread->should_stop);
}
EXPORT_SYMBOL(kthread_should_stop);

/* Ask a thread to stop and wait until it has left its function. */
int kthread_stop(struct task_struct *p)
{
	struct kthread *k = p->kthread;
	int ret;

	get_task_struct(p);
	WRITE_ONCE(k->should_stop, 1);
	wake_up_process(p);
	wait_for_completion(&k->exited);
	ret = p->exit_code;
	put_task_struct(p);
	return ret;
}
EXPORT_SYMBOL(kthread_stop);

void kthread_exited(struct task_struct *p)
{
	complete(&p->kthread->exited);
}
