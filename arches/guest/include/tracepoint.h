/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tracepoints, for who looks in from outside. In miniature of linux/tracepoint.h,
 * trace/syscall.h and trace/events/sched.h.
 *
 * The kernel calls `func` of a tracepoint while `enabled` is not 0. The host writes func
 * first and lets it stay: a CPU may have looked at `enabled` before it became 0.
 *   __tracepoint_sys_enter   sys_enter_func, before the system call
 *   __tracepoint_sys_exit    sys_exit_func, behind it
 *   __tracepoint_sched_switch   sched_switch_func, before tasks are switched
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

extern struct tracepoint __tracepoint_sys_enter, __tracepoint_sys_exit;
extern struct tracepoint __tracepoint_sched_switch;

/* What a system call is called and takes. */
struct syscall_metadata {
	const char *name; /* with its sys_ */
	long nb_args;
	const char *types[SYSCALL_ARGS_MAX]; /* of its arguments, in C */
	const char *args[SYSCALL_ARGS_MAX];  /* their names */
};

/* By the number of the system call; a null pointer is the end. */
extern const struct syscall_metadata *const syscalls_metadata[];

/* In tracer.o: which calls are told of, by their numbers; the host writes it. */
#define SYSCALLS_MAX 384

struct syscall_event {
	u16 enter, exit; /* type of the event, 0: none */
	u16 nb_args;
	u16 unused;
};

extern struct syscall_event syscall_events[SYSCALLS_MAX];

struct syscall_trace_enter {
	struct trace_entry ent;
	s32 nr;
	unsigned char pad[sizeof(long) - 4];
	unsigned long args[];
} __attribute__((packed, aligned(4)));

struct syscall_trace_exit {
	struct trace_entry ent;
	s32 nr;
	unsigned char pad[sizeof(long) - 4];
	long ret;
} __attribute__((packed, aligned(4)));

void ftrace_syscall_enter(long nr, const unsigned long *args);
void ftrace_syscall_exit(long nr, long ret);
void ftrace_graph_probe_sched_switch(struct ftrace_ret_stack *prev,
				     struct ftrace_ret_stack *next);

#endif
