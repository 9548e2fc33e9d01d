// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * New tasks. Modelled on kernel/fork.c. All tasks share one address space,
 * so a child does not return from fork(): it starts in a function.
 */
#include "events.h"
#include "fs.h"
#include "irq.h"
#include "sched.h"
#include "tracepoint.h"

struct tracepoint __tracepoint_sched_process_fork, __tracepoint_sched_process_free;

struct task_struct init_task = {
	.usage = 2, .comm = "swapper/0", .prio = DEFAULT_PRIO, .static_prio = DEFAULT_PRIO,
	.parent = &init_task,
	.children = LIST_HEAD_INIT(init_task.children),
	.sibling = LIST_HEAD_INIT(init_task.sibling),
	.tasks = LIST_HEAD_INIT(init_task.tasks),
	.run_list = LIST_HEAD_INIT(init_task.run_list),
	.wait_chldexit = WAIT_QUEUE_HEAD_INIT(init_task.wait_chldexit),
};

DEFINE_SPINLOCK(tasklist_lock);
int nr_threads, max_threads = 96;
unsigned long total_forks;

static struct kmem_cache *task_struct_cachep;

static void *alloc_thread_stack_node(void)
{
	return (void *)__get_free_pages(GFP_KERNEL, THREAD_ORDER);
}

static void free_thread_stack(struct task_struct *p)
{
	free_pages((unsigned long)p->stack, THREAD_ORDER);
}

static void ftrace_graph_init_task(struct task_struct *p)
{
	memset(&p->ret_stack, 0, __builtin_offsetof(struct ftrace_ret_stack, stack));
}

static struct task_struct *dup_task_struct(struct task_struct *orig)
{
	struct task_struct *p = kmem_cache_alloc(task_struct_cachep, GFP_KERNEL);

	if (!p)
		return NULL;
	memcpy(p, orig, __builtin_offsetof(struct task_struct, ret_stack));
	ftrace_graph_init_task(p);
	p->stack = alloc_thread_stack_node();
	if (!p->stack) {
		kmem_cache_free(task_struct_cachep, p);
		return NULL;
	}
	*(unsigned long *)p->stack = STACK_END_MAGIC;
	p->usage = 2; /* one for the reaper, one for its last switch */
	p->kthread = NULL;
	return p;
}

static void free_task(struct task_struct *p)
{
	free_thread_stack(p);
	kfree(p->kthread);
	kmem_cache_free(task_struct_cachep, p);
}

void get_task_struct(struct task_struct *p)
{
	__atomic_add_fetch(&p->usage, 1, __ATOMIC_RELAXED);
}

void put_task_struct(struct task_struct *p)
{
	if (!__atomic_sub_fetch(&p->usage, 1, __ATOMIC_ACQ_REL))
		free_task(p);
}

void __set_task_comm(struct task_struct *p, const char *name)
{
	char comm[TASK_COMM_LEN];

	memset(comm, 0, sizeof(comm));
	strscpy(comm, name, sizeof(comm));
	memcpy(p->comm, comm, sizeof(comm));
	if (this_cpu->buffer.flags & RB_RECORD_CMD)
		tracing_record_cmdline(p);
}

static int copy_files(struct task_struct *p)
{
	p->files = p->flags & PF_KTHREAD ? NULL : dup_fd(current->files);
	return p->files || (p->flags & PF_KTHREAD) ? 0 : -ENOMEM;
}

static int copy_fs(struct task_struct *p)
{
	p->fs = copy_fs_struct(current->fs);
	return p->fs ? 0 : -ENOMEM;
}

static int copy_mm(struct task_struct *p)
{
	p->mm = current->mm ? dup_mm(current->mm) : NULL;
	return !current->mm || p->mm ? 0 : -ENOMEM;
}

static void copy_thread(struct task_struct *p, struct kernel_clone_args *args)
{
	p->sp = (unsigned long)thread_frame((char *)p->stack + THREAD_SIZE, args->fn,
					    args->fn_arg);
}

static void copy_process_links(struct task_struct *p)
{
	INIT_LIST_HEAD(&p->children);
	INIT_LIST_HEAD(&p->sibling);
	INIT_LIST_HEAD(&p->tasks);
	INIT_LIST_HEAD(&p->pid_chain);
	init_waitqueue_head(&p->wait_chldexit);
	p->exit_state = p->exit_code = 0;
	p->start_time = jiffies;
}

/* Charge the limit of tasks; idle tasks do not count. */
static int reserve_thread(void)
{
	int ok;

	spin_lock(&tasklist_lock);
	ok = nr_threads < max_threads;
	nr_threads += ok;
	spin_unlock(&tasklist_lock);
	return ok ? 0 : -EAGAIN;
}

static void release_thread_place(void)
{
	spin_lock(&tasklist_lock);
	nr_threads--;
	spin_unlock(&tasklist_lock);
}

static struct task_struct *copy_process(struct kernel_clone_args *args)
{
	struct task_struct *p;
	int err = reserve_thread();

	if (err)
		return ERR_PTR(err);
	p = dup_task_struct(current);
	if (!p) {
		release_thread_place();
		return ERR_PTR(-ENOMEM);
	}
	p->flags = args->flags;
	if (args->name)
		strscpy(p->comm, args->name, sizeof(p->comm));
	copy_process_links(p);
	sched_fork(p);
	p->files = NULL;
	p->fs = NULL;
	p->mm = NULL;
	err = copy_files(p);
	if (!err)
		err = copy_fs(p);
	if (!err)
		err = copy_mm(p);
	if (err) {
		exit_mm(p);
		exit_fs(p);
		exit_files(p);
		p->usage = 1;
		put_task_struct(p);
		release_thread_place();
		return ERR_PTR(err);
	}
	copy_thread(p, args);
	alloc_pid(p);
	spin_lock(&tasklist_lock);
	p->parent = current;
	list_add_tail(&p->sibling, &current->children);
	list_add_tail(&p->tasks, &init_task.tasks);
	total_forks++;
	spin_unlock(&tasklist_lock);
	return p;
}

/* Return the child's pid, or -errno. */
int kernel_clone(struct kernel_clone_args *args)
{
	struct task_struct *p = copy_process(args);
	int pid;

	if (IS_ERR(p))
		return PTR_ERR(p);
	event_sched_process_fork(current, p);
	trace_sched_process(&__tracepoint_sched_process_fork, p, current);
	pid = p->pid; /* it may already be freed after the wakeup */
	wake_up_new_task(p);
	return pid;
}

int kernel_thread(int (*fn)(void *), void *arg, unsigned int flags)
{
	struct kernel_clone_args args = {
		.flags = flags | PF_KTHREAD, .fn = fn, .fn_arg = arg,
	};

	return kernel_clone(&args);
}

int user_mode_thread(int (*fn)(void *), void *arg)
{
	struct kernel_clone_args args = { .fn = fn, .fn_arg = arg };

	return kernel_clone(&args);
}

/* A task without pid and function: HC_CPU_UP starts it in start_secondary(). */
struct task_struct *fork_idle(int cpu)
{
	struct task_struct *p = dup_task_struct(&init_task);

	if (!p)
		return NULL;
	copy_process_links(p);
	INIT_LIST_HEAD(&p->run_list);
	p->parent = &init_task;
	snprintf(p->comm, sizeof(p->comm), "swapper/%d", cpu);
	init_idle(p, cpu);
	return p;
}

void fork_init(void)
{
	task_struct_cachep = kmem_cache_create("task_struct", sizeof(struct task_struct));
}
