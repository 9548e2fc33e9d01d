// SPDX-License-Identifier: GPL-2.0-or-later
/* The system calls, through a table. In miniature of an architecture's
 * entry/common.c and of the SYSCALL_DEFINEs all over the kernel. */
#include "exec.h"
#include "irq.h"
#include "sched.h"
#include "syscall.h"

static long sys_read(long fd, long buf, long count)
{
	return ksys_read(fd, (char *)buf, count);
}

static long sys_write(long fd, long buf, long count)
{
	return ksys_write(fd, (const char *)buf, count);
}

static long sys_open(long path, long flags, long mode)
{
	return do_sys_openat2((const char *)path, flags);
}

static long sys_close(long fd, long b, long c)
{
	return close_fd(fd);
}

static long sys_newstat(long path, long stat, long c)
{
	return vfs_stat((const char *)path, (struct kstat *)stat);
}

static long sys_lseek(long fd, long offset, long c)
{
	struct file *file = fget(fd);
	long ret;

	if (!file)
		return -EBADF;
	ret = vfs_llseek(file, offset);
	fput(file);
	return ret;
}

static long sys_pipe(long fds, long b, long c)
{
	return do_pipe2((int *)fds);
}

static long sys_sched_yield(long a, long b, long c)
{
	sched_yield();
	return 0;
}

static long sys_nanosleep(long ns, long b, long c)
{
	return hrtimer_nanosleep(ns);
}

static long sys_getpid(long a, long b, long c)
{
	return current->tgid;
}

static long sys_getppid(long a, long b, long c)
{
	return READ_ONCE(current->parent)->pid;
}

static long sys_fork(long fn, long arg, long c)
{
	return user_mode_thread((int (*)(void *))fn, (void *)arg);
}

static long sys_execve(long path, long b, long c)
{
	return do_execve((const char *)path);
}

static long sys_exit(long code, long b, long c)
{
	do_exit(code);
}

static long sys_wait4(long pid, long status, long nohang)
{
	return kernel_wait4(pid, (int *)status, nohang);
}

static long sys_kill(long pid, long sig, long c)
{
	if (sig)
		return -EINVAL; /* there are no signals: only "does it exist" */
	return find_task_by_vpid(pid) ? 0 : -ESRCH;
}

static long sys_getdents(long fd, long buf, long count)
{
	struct file *file = fget(fd);
	long ret;

	if (!file)
		return -EBADF;
	ret = iterate_dir(file, (char *)buf, count);
	fput(file);
	return ret;
}

static long sys_mkdir(long path, long mode, long c)
{
	return do_mkdirat((const char *)path);
}

static long sys_unlink(long path, long b, long c)
{
	return do_unlinkat((const char *)path);
}

static long sys_mount(long type, long path, long c)
{
	return do_mount((const char *)type, (const char *)path);
}

static long sys_umount(long path, long b, long c)
{
	return do_umount((const char *)path);
}

static long sys_prctl(long name, long b, long c)
{
	__set_task_comm(current, (const char *)name);
	return 0;
}

static long sys_time(long a, long b, long c)
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

static long sys_sysinfo(long info, long b, long c)
{
	return do_sysinfo((unsigned long *)info);
}

static long sys_ni_syscall(void)
{
	return -ENOSYS;
}

typedef long (*sys_call_ptr_t)(long, long, long);

static const sys_call_ptr_t sys_call_table[NR_syscalls] = {
	[NR_read] = sys_read, [NR_write] = sys_write, [NR_open] = sys_open,
	[NR_close] = sys_close, [NR_stat] = sys_newstat, [NR_lseek] = sys_lseek,
	[NR_pipe] = sys_pipe, [NR_sched_yield] = sys_sched_yield,
	[NR_nanosleep] = sys_nanosleep, [NR_getpid] = sys_getpid, [NR_getppid] = sys_getppid,
	[NR_fork] = sys_fork, [NR_execve] = sys_execve, [NR_exit] = sys_exit,
	[NR_wait4] = sys_wait4, [NR_kill] = sys_kill, [NR_getdents] = sys_getdents,
	[NR_mkdir] = sys_mkdir, [NR_unlink] = sys_unlink, [NR_mount] = sys_mount,
	[NR_umount] = sys_umount, [NR_prctl] = sys_prctl, [NR_time] = sys_time,
	[NR_sysinfo] = sys_sysinfo,
};

static void syscall_exit_to_user_mode(void)
{
	if (need_resched())
		schedule();
}

long DO_SYSCALL(unsigned long nr, long a, long b, long c)
{
	long ret = nr < NR_syscalls ? sys_call_table[nr](a, b, c) : sys_ni_syscall();

	syscall_exit_to_user_mode();
	return ret;
}
