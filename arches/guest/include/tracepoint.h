/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tracepoints for the host. Modelled on linux/tracepoint.h,
 * trace/syscall.h and trace/events/sched.h.
 *
 * The kernel calls `func` of a tracepoint while `enabled` is not 0. The host writes func
 * first and never clears it: a CPU may have read `enabled` just before it became 0.
 *   __tracepoint_sys_enter   sys_enter_func, before the system call
 *   __tracepoint_sys_exit    sys_exit_func, after it
 *   __tracepoint_sched_switch   sched_switch_func, before tasks are switched
 *   __tracepoint_sched_switch_task   sched_task_func(next, prev), before tasks are switched
 *   __tracepoint_sched_wakeup, _sched_migrate_task   sched_task_func(task, 0), after a task
 *                wakes up or moves to another CPU
 *   __tracepoint_sched_process_fork   sched_task_func(child, parent), before it first runs
 *   __tracepoint_sched_process_free   sched_task_func(task, 0), after it has ended
 *   __tracepoint_irq_disable, _irq_enable, _preempt_disable, _preempt_enable
 *                critical_func, after they are disabled, or before they are enabled
 *   __tracepoint_trace_printk   trace_printk_func, for each message of trace_printk()
 *   __tracepoint_critical_start, _critical_stop   critical_func, after and before a CPU sleeps
 * core/abi.py describes these layouts to the host.
 */
#ifndef TRACEPOINT_H
#define TRACEPOINT_H

#include "machine.h"

struct tracepoint {
	u32 enabled;
	u32 unused;
	u64 func; /* as the ABI calls it */
};

#define SYSCALL_ARGS_MAX 6

typedef void (*sys_enter_func)(long nr, const unsigned long *args);
typedef void (*sys_exit_func)(long nr, long ret);
typedef void (*sched_switch_func)(struct ftrace_ret_stack *prev, struct ftrace_ret_stack *next);
/* `ip` is an address in the function that makes the change, `parent_ip` one in its caller, or 0. */
typedef void (*sched_task_func)(const struct task_fields *task, const struct task_fields *prev,
				unsigned long parent_ip);
typedef void (*trace_printk_func)(u32 type, unsigned long ip, const void *text, unsigned long len,
				  const u32 *args, unsigned long caller);
typedef void (*critical_func)(unsigned long ip, unsigned long parent_ip);

extern struct tracepoint __tracepoint_sys_enter, __tracepoint_sys_exit;
extern struct tracepoint __tracepoint_sched_switch;
extern struct tracepoint __tracepoint_sched_process_fork, __tracepoint_sched_process_free;

static inline void trace_sched_process(const struct tracepoint *tp, void *task, void *other)
{
	if (*(const volatile u32 *)&tp->enabled)
		((sched_task_func)(unsigned long)tp->func)(task, other, 0);
}

/* Name and arguments of a system call. */
struct syscall_metadata {
	const char *name; /* with the prefix sys_ */
	long nb_args;
	const char *types[SYSCALL_ARGS_MAX]; /* C types of the arguments */
	const char *args[SYSCALL_ARGS_MAX];  /* names of the arguments */
};

/* Indexed by system call number; ends with a null pointer. */
extern const struct syscall_metadata *const syscalls_metadata[];

/* In tracer.o: event types, indexed by system call number; written by the host. */
#define SYSCALLS_MAX 384

struct syscall_event {
	u16 enter, exit; /* type of the event, or 0 for none */
	u16 nb_args;
	u16 unused;
};

extern struct syscall_event syscall_events[SYSCALLS_MAX];

void ftrace_syscall_enter(long nr, const unsigned long *args);
void ftrace_syscall_exit(long nr, long ret);
void ftrace_pid_follow(const struct task_fields *task, const struct task_fields *parent,
		       unsigned long parent_ip);
void probe_wakeup(const struct task_fields *p, const struct task_fields *none,
		  unsigned long parent_ip);
void probe_wakeup_migrate_task(const struct task_fields *p, const struct task_fields *none,
			       unsigned long parent_ip);
void probe_wakeup_sched_switch(const struct task_fields *next, const struct task_fields *prev,
			       unsigned long parent_ip);
void trace_printk_write(u32 type, unsigned long ip, const void *text, unsigned long len,
			const u32 *args, unsigned long caller);
void tracer_hardirqs_off(unsigned long ip, unsigned long parent_ip);
void tracer_hardirqs_on(unsigned long ip, unsigned long parent_ip);
void tracer_preempt_off(unsigned long ip, unsigned long parent_ip);
void tracer_preempt_on(unsigned long ip, unsigned long parent_ip);
void tracer_start_critical(unsigned long ip, unsigned long parent_ip);
void tracer_stop_critical(unsigned long ip, unsigned long parent_ip);
void ftrace_graph_probe_sched_switch(struct ftrace_ret_stack *prev,
				     struct ftrace_ret_stack *next);

#endif
