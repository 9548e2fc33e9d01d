// SPDX-License-Identifier: GPL-2.0-or-later
/* The system call table. Modelled on an architecture's
 * entry/common.c and on the SYSCALL_DEFINEs all over the kernel. */
#include "events.h"
#include "exec.h"
#include "irq.h"
#include "net.h"
#include "sched.h"
#include "syscall.h"
#include "tracepoint.h"

typedef int pid_t;
typedef unsigned short umode_t;

/*
 * Every system call is a function of three longs. sys_NAME has the call site and passes
 * the longs to an inlined function with the real types.
 */
#define SYSCALL_BODY(name, nargs, types, args, call, ...)                       \
	static const struct syscall_metadata __syscall_meta__##name = {         \
		"sys_" #name, nargs, types, args };                             \
	static inline long __do_sys_##name(__VA_ARGS__);                        \
	static long sys_##name(long a, long b, long c)                          \
	{                                                                       \
		return __do_sys_##name call;                                    \
	}                                                                       \
	static inline long __do_sys_##name(__VA_ARGS__)

#define NAMES(...) { __VA_ARGS__ }
#define SYSCALL_DEFINE0(name) SYSCALL_BODY(name, 0, NAMES(), NAMES(), (), void)
#define SYSCALL_DEFINE1(name, t1, a1)                                           \
	SYSCALL_BODY(name, 1, NAMES(#t1), NAMES(#a1), ((t1)a), t1 a1)
#define SYSCALL_DEFINE2(name, t1, a1, t2, a2)                                   \
	SYSCALL_BODY(name, 2, NAMES(#t1, #t2), NAMES(#a1, #a2), ((t1)a, (t2)b), t1 a1, t2 a2)
#define SYSCALL_DEFINE3(name, t1, a1, t2, a2, t3, a3)                           \
	SYSCALL_BODY(name, 3, NAMES(#t1, #t2, #t3), NAMES(#a1, #a2, #a3),       \
		     ((t1)a, (t2)b, (t3)c), t1 a1, t2 a2, t3 a3)

SYSCALL_DEFINE3(read, unsigned int, fd, char *, buf, size_t, count)
{
	return ksys_read(fd, buf, count);
}

SYSCALL_DEFINE3(write, unsigned int, fd, const char *, buf, size_t, count)
{
	return ksys_write(fd, buf, count);
}

SYSCALL_DEFINE3(open, const char *, filename, int, flags, umode_t, mode)
{
	return do_sys_openat2(filename, flags);
}

/* A path is absolute or begins at the current directory: no other directory can be open. */
SYSCALL_DEFINE3(openat, int, dfd, const char *, filename, int, flags)
{
	return dfd == AT_FDCWD || *filename == '/' ? do_sys_openat2(filename, flags) : -EBADF;
}

SYSCALL_DEFINE1(close, unsigned int, fd)
{
	return close_fd(fd);
}

SYSCALL_DEFINE2(newstat, const char *, filename, struct kstat *, statbuf)
{
	return vfs_stat(filename, statbuf);
}

SYSCALL_DEFINE2(lseek, unsigned int, fd, long, offset)
{
	struct file *file = fget(fd);
	long ret;

	if (!file)
		return -EBADF;
	ret = vfs_llseek(file, offset);
	fput(file);
	return ret;
}

SYSCALL_DEFINE1(pipe, int *, fildes)
{
	return do_pipe2(fildes);
}

SYSCALL_DEFINE0(sched_yield)
{
	sched_yield();
	return 0;
}

SYSCALL_DEFINE1(nanosleep, unsigned long, ns)
{
	return hrtimer_nanosleep(ns);
}

SYSCALL_DEFINE0(getpid)
{
	return current->tgid;
}

SYSCALL_DEFINE0(getppid)
{
	return READ_ONCE(current->parent)->pid;
}

typedef int (*user_fn)(void *);

SYSCALL_DEFINE2(fork, user_fn, fn, void *, arg)
{
	return user_mode_thread(fn, arg);
}

SYSCALL_DEFINE1(execve, const char *, filename)
{
	return do_execve(filename);
}

SYSCALL_DEFINE1(exit, int, error_code)
{
	do_exit(error_code);
}

SYSCALL_DEFINE3(wait4, pid_t, upid, int *, stat_addr, int, options)
{
	return kernel_wait4(upid, stat_addr, options);
}

SYSCALL_DEFINE2(kill, pid_t, pid, int, sig)
{
	if (sig)
		return -EINVAL; /* there are no signals: only "does it exist" */
	return find_task_by_vpid(pid) ? 0 : -ESRCH;
}

SYSCALL_DEFINE3(getdents, unsigned int, fd, char *, dirent, unsigned int, count)
{
	struct file *file = fget(fd);
	long ret;

	if (!file)
		return -EBADF;
	ret = iterate_dir(file, dirent, count);
	fput(file);
	return ret;
}

SYSCALL_DEFINE2(mkdir, const char *, pathname, umode_t, mode)
{
	return do_mkdirat(pathname);
}

SYSCALL_DEFINE1(unlink, const char *, pathname)
{
	return do_unlinkat(pathname);
}

SYSCALL_DEFINE1(chdir, const char *, filename)
{
	return ksys_chdir(filename);
}

SYSCALL_DEFINE2(socket, int, family, int, type)
{
	return __sys_socket(family, type);
}

/* An address is the number of a port. */
SYSCALL_DEFINE2(bind, unsigned int, fd, unsigned int, port)
{
	return __sys_bind(fd, port);
}

SYSCALL_DEFINE2(listen, unsigned int, fd, int, backlog)
{
	return __sys_listen(fd, backlog);
}

SYSCALL_DEFINE1(accept, unsigned int, fd)
{
	return __sys_accept4(fd);
}

SYSCALL_DEFINE2(connect, unsigned int, fd, unsigned int, port)
{
	return __sys_connect(fd, port);
}

SYSCALL_DEFINE2(mount, const char *, type, const char *, dir_name)
{
	return do_mount(type, dir_name);
}

SYSCALL_DEFINE1(umount, const char *, name)
{
	return do_umount(name);
}

SYSCALL_DEFINE1(prctl, const char *, name)
{
	__set_task_comm(current, name);
	return 0;
}

SYSCALL_DEFINE0(time)
{
	return get_seconds();
}

static long do_sysinfo(unsigned long *info)
{
	info[0] = jiffies;
	info[1] = totalram_pages();
	info[2] = nr_free_pages();
	info[3] = nr_threads;
	return 0;
}

SYSCALL_DEFINE1(sysinfo, unsigned long *, info)
{
	return do_sysinfo(info);
}

static long sys_ni_syscall(void)
{
	return -ENOSYS;
}

#define SYSCALLS(call)                                                          \
	call(NR_read, read), call(NR_write, write), call(NR_open, open),        \
	call(NR_close, close), call(NR_stat, newstat), call(NR_lseek, lseek),   \
	call(NR_pipe, pipe), call(NR_sched_yield, sched_yield),                 \
	call(NR_nanosleep, nanosleep), call(NR_getpid, getpid),                 \
	call(NR_getppid, getppid), call(NR_fork, fork),                         \
	call(NR_execve, execve), call(NR_exit, exit), call(NR_wait4, wait4),    \
	call(NR_kill, kill), call(NR_getdents, getdents),                       \
	call(NR_mkdir, mkdir), call(NR_unlink, unlink),                         \
	call(NR_mount, mount), call(NR_umount, umount),                         \
	call(NR_prctl, prctl), call(NR_time, time), call(NR_sysinfo, sysinfo),  \
	call(NR_openat, openat), call(NR_chdir, chdir),                         \
	call(NR_socket, socket), call(NR_bind, bind), call(NR_listen, listen),  \
	call(NR_accept, accept), call(NR_connect, connect)

#define SYSCALL_FUNCTION(nr, name) [nr] = sys_##name
#define SYSCALL_METADATA(nr, name) [nr] = &__syscall_meta__##name

typedef long (*sys_call_ptr_t)(long, long, long);

static const sys_call_ptr_t sys_call_table[NR_syscalls] = { SYSCALLS(SYSCALL_FUNCTION) };

const struct syscall_metadata *const syscalls_metadata[NR_syscalls + 1] = {
	SYSCALLS(SYSCALL_METADATA)
};

struct tracepoint __tracepoint_sys_enter, __tracepoint_sys_exit;

static inline void trace_sys_enter(long nr, long a, long b, long c)
{
	if (unlikely(READ_ONCE(__tracepoint_sys_enter.enabled))) {
		unsigned long args[SYSCALL_ARGS_MAX] = { a, b, c };

		((sys_enter_func)(unsigned long)__tracepoint_sys_enter.func)(nr, args);
	}
}

static inline void trace_sys_exit(long nr, long ret)
{
	if (unlikely(READ_ONCE(__tracepoint_sys_exit.enabled)))
		((sys_exit_func)(unsigned long)__tracepoint_sys_exit.func)(nr, ret);
}

static void syscall_exit_to_user_mode(void)
{
	if (need_resched())
		schedule();
}

long DO_SYSCALL(unsigned long nr, long a, long b, long c)
{
	long ret;

	trace_sys_enter(nr, a, b, c);
	event_sys_enter(nr, a, b, c);
	ret = nr < NR_syscalls ? sys_call_table[nr](a, b, c) : sys_ni_syscall();
	event_sys_exit(nr, ret);
	trace_sys_exit(nr, ret);
	syscall_exit_to_user_mode();
	return ret;
}
