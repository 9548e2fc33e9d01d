/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls: numbers, table entries, and the function that user code calls. Modelled
 * on asm/unistd.h. DO_SYSCALL is the port's name for the entry. */
#ifndef SYSCALL_H
#define SYSCALL_H

#include "kernel.h"

enum {
	NR_read, NR_write, NR_open, NR_close, NR_stat, NR_lseek, NR_pipe, NR_sched_yield,
	NR_nanosleep, NR_getpid, NR_getppid, NR_fork, NR_execve, NR_exit, NR_wait4, NR_kill,
	NR_getdents, NR_mkdir, NR_unlink, NR_mount, NR_umount, NR_prctl, NR_time, NR_sysinfo,
	NR_openat, NR_chdir, NR_socket, NR_bind, NR_listen, NR_accept, NR_connect,
	NR_syscalls,
};

long DO_SYSCALL(unsigned long nr, long a, long b, long c);

#define AT_FDCWD -100 /* the current directory */

/* For user code, which is not traced. */
#define syscall(nr, a, b, c) DO_SYSCALL(NR_##nr, (long)(a), (long)(b), (long)(c))

/* init/user.c: wrappers, as in a C library */
int user_fork(int (*fn)(void *), void *arg);
int user_wait(int pid);
int user_exec(const char *path);

#endif
