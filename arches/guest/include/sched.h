/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks and the scheduler's interface. Modelled on linux/sched.h,
 * sched/task.h, kthread.h and workqueue.h.
 */
#ifndef SCHED_H
#define SCHED_H

#include "lock.h"

#define THREAD_ORDER 2
_Static_assert(THREAD_SIZE == 4096 << THREAD_ORDER, "a stack is that many pages");
#define STACK_END_MAGIC 0x57ac6e9dul

#define TASK_RUNNING 0x00
#define TASK_INTERRUPTIBLE 0x01
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_NORMAL (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define TASK_DEAD 0x80
#define TASK_WAKING 0x100
#define TASK_NEW 0x200
#define TASK_ANY (TASK_NORMAL | TASK_NEW)

#define PF_IDLE 0x01
#define PF_KTHREAD 0x02
#define PF_EXITING 0x04
#define PF_AUTOREAP 0x08 /* nobody waits for it: exit frees it */

#define EXIT_ZOMBIE 1
#define EXIT_DEAD 2

struct files_struct;
struct fs_struct;
struct mm_struct;
struct kthread;

struct task_struct {
	TASK_FIELDS;
	unsigned int flags;
	int usage;
	int tgid;

	int on_rq;
	int on_cpu;
	u32 cpus_allowed;
	u32 preempt_count;   /* moves with the task at a switch */
	u32 migrate_disable;
	spinlock_t pi_lock;
	struct list_head run_list;
	u64 vruntime;
	u64 exec_start;
	u64 sum_exec_runtime;
	u64 slice_start;
	unsigned long nvcsw, nivcsw;
	unsigned long utime, stime;

	struct task_struct *parent;
	struct list_head children;
	struct list_head sibling;
	struct list_head tasks;
	struct list_head pid_chain;
	wait_queue_head_t wait_chldexit;
	int exit_state;
	int exit_code;
	unsigned long start_time; /* jiffies */

	struct files_struct *files;
	struct fs_struct *fs;
	struct mm_struct *mm;
	struct kthread *kthread;

	struct ftrace_ret_stack ret_stack;
};

#define MAX_RT_PRIO 100
#define DEFAULT_PRIO 120
#define SCHED_FIFO 1
#define rt_task(p) ((p)->prio < MAX_RT_PRIO)

#define current ((struct task_struct *)(unsigned long)this_cpu->current_task)

#define set_current_state(s) do { current->state = (s); barrier(); } while (0)
#define task_cpu(p) (READ_ONCE((p)->cpu))

extern struct task_struct init_task;
extern spinlock_t tasklist_lock;
extern struct task_struct *child_reaper;
extern struct task_struct *kthreadd_task;
extern int nr_threads, max_threads;
extern unsigned long total_forks;
extern u32 cpu_online_mask;

/* switch.S, one per architecture */
struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next);
void *thread_frame(void *stack_top, int (*fn)(void *), void *arg);

/* sched/core.c */
void sched_init(void);
void init_idle(struct task_struct *idle, int cpu);
void sched_fork(struct task_struct *p);
void wake_up_new_task(struct task_struct *p);
int try_to_wake_up(struct task_struct *p, unsigned int state);
int wake_up_process(struct task_struct *p);
void schedule_tail(struct task_struct *prev);
void schedule_idle(void);
void schedule_notrace(void);
void preempt_schedule_irq(void);
int cond_resched(void);
void sched_yield(void);
void scheduler_tick(void);
void scheduler_ipi(void);
void set_cpus_allowed(struct task_struct *p, u32 mask);
void migrate_disable(void);
void migrate_enable(void);
void sched_set_fifo(struct task_struct *p, unsigned int priority);
void set_user_nice(struct task_struct *p, long nice);
void do_task_dead(void) noreturn;
unsigned long nr_running(void);
unsigned long nr_context_switches(void);
void cpu_startup_entry(void) noreturn; /* sched/idle.c */
void calc_global_load(void);
extern unsigned long avenrun;

/* process/fork.c, process/exit.c, process/pid.c, process/exec.c */
struct kernel_clone_args {
	unsigned int flags; /* PF_* of the child */
	int (*fn)(void *);
	void *fn_arg;
	const char *name;
};

void fork_init(void);
int kernel_clone(struct kernel_clone_args *args);
int kernel_thread(int (*fn)(void *), void *arg, unsigned int flags);
int user_mode_thread(int (*fn)(void *), void *arg);
struct task_struct *fork_idle(int cpu);
void put_task_struct(struct task_struct *p);
void get_task_struct(struct task_struct *p);
void __set_task_comm(struct task_struct *p, const char *name);
void do_exit(int code) noreturn;
int kernel_wait4(int pid, int *status, int nohang);
void release_task(struct task_struct *p);
int alloc_pid(struct task_struct *p);
void free_pid(struct task_struct *p);
int set_last_pid(int pid);
struct task_struct *find_task_by_vpid(int pid);
void exec_init(void);
int kernel_execve(const char *path);

struct mm_struct *mm_alloc(void);
struct mm_struct *dup_mm(struct mm_struct *old);
void mmput(struct mm_struct *mm);
void exit_mm(struct task_struct *p);

/* process/kthread.c */
int kthreadd(void *unused);
struct task_struct *kthread_create(int (*fn)(void *), void *data, const char *fmt, ...)
	__printf(3, 4);
void kthread_bind(struct task_struct *p, int cpu);
int kthread_should_stop(void);
int kthread_stop(struct task_struct *p);
void kthread_exited(struct task_struct *p);
#define kthread_run(fn, data, fmt, ...)                                         \
	({                                                                      \
		struct task_struct *t_ = kthread_create(fn, data, fmt, ##__VA_ARGS__); \
		if (!IS_ERR(t_))                                                \
			wake_up_process(t_);                                    \
		t_;                                                             \
	})

/* process/smp.c */
void smp_init(void);
void smp_send_reschedule(int cpu);
void start_secondary(struct task_struct *idle);

/* sched/cmdline.c */
void tracing_record_cmdline(struct task_struct *p);
void tracing_record_switch(struct task_struct *prev, struct task_struct *next);

/* ftrace/ftraced.c, in kernels that find call sites when they run */
#ifdef CONFIG_FTRACED
void ftraced_init(void);
#define start_ftraced ftraced_init
#else
#define start_ftraced()
#endif

#endif
