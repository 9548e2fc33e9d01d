// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The workloads that the console's `run` starts. They act as user programs and
 * have no call sites: the kernel below them is the subject. All processes of a
 * round exit before the round ends.
 */
#include "fs.h"
#include "module.h"
#include "net.h"
#include "sched.h"
#include "syscall.h"
#include "workload.h"

static long boot_round(unsigned long n)
{
	int pid = user_fork((int (*)(void *))user_exec, "/sbin/rc");

	return pid < 0 ? pid : user_wait(pid);
}

/* One of two processes that share only the kernel. */
static int syscalls_child(void *arg)
{
	long id = (long)arg;
	const char *path = id ? "/tmp/b" : "/tmp/a";
	char buf[64];
	int fd;

	for (int i = 0; i < 2; i++) {
		fd = syscall(open, path, O_CREAT | O_RDWR | O_TRUNC, 0);
		if (fd < 0)
			return fd;
		syscall(write, fd, "the quick brown fox", 19);
		syscall(lseek, fd, 0, 0);
		if (syscall(read, fd, buf, sizeof(buf)) != 19)
			return -EIO;
		syscall(close, fd, 0, 0);
		syscall(getpid, 0, 0, 0);
		fd = syscall(open, "/proc/uptime", O_RDONLY, 0);
		syscall(read, fd, buf, sizeof(buf));
		syscall(close, fd, 0, 0);
		fd = syscall(open, "/proc/comm", O_WRONLY, 0);
		syscall(write, fd, id ? "syscalls-b" : "syscalls-a", 10);
		syscall(close, fd, 0, 0);
		syscall(nanosleep, 1000000, 0, 0);
	}
	return syscall(unlink, path, 0, 0);
}

static int pipe_reader(void *arg)
{
	const int *fd = arg;
	char buf[32];
	int n, total = 0;

	syscall(close, fd[1], 0, 0);
	while ((n = syscall(read, fd[0], buf, sizeof(buf))) > 0)
		total += n;
	return total;
}

static long pipe_part(void)
{
	int fd[2], pid, err = syscall(pipe, fd, 0, 0);

	if (err)
		return err;
	pid = user_fork(pipe_reader, fd);
	syscall(close, fd[0], 0, 0);
	for (int i = 0; pid > 0 && i < 4; i++)
		syscall(write, fd[1], "0123456789abcdef", 16);
	syscall(close, fd[1], 0, 0);
	if (pid < 0)
		return pid;
	return user_wait(pid) == 64 ? 0 : -EIO;
}

static long syscalls_round(unsigned long n)
{
	int pid[2];
	long ret = 0;

	for (long i = 0; i < 2; i++)
		pid[i] = user_fork(syscalls_child, (void *)i);
	for (int i = 0; i < 2; i++) {
		long code = pid[i] < 0 ? pid[i] : user_wait(pid[i]);

		if (code && !ret)
			ret = code;
	}
	return ret ? ret : pipe_part();
}
#ifndef USB_FLAVOURS /* otherwise in init/usb_rounds.c */
static long (*usb_round_hook)(unsigned long);

void usb_register_workload(long (*round)(unsigned long n))
{
	WRITE_ONCE(usb_round_hook, round);
}
EXPORT_SYMBOL(usb_register_workload);

static long usb_round(unsigned long n)
{
	long (*round)(unsigned long) = READ_ONCE(usb_round_hook);

	return round ? round(n) : -ENODEV;
}
#endif
#define SOCKETS_PORT 7

static int socket_client(void *arg)
{
	int fd = syscall(socket, AF_INET, SOCK_STREAM, 0), err;

	if (fd < 0)
		return fd;
	err = syscall(connect, fd, SOCKETS_PORT, 0);
	for (int i = 0; !err && i < 20; i++)
		err = syscall(write, fd, "0123456789abcdef", 16) == 16 ? 0 : -EIO;
	syscall(close, fd, 0, 0);
	return err;
}

/* Accept a connection of a child and read what it writes: more than fits on the way. */
static long sockets_accept(int fd)
{
	int pid = user_fork(socket_client, NULL), conn, n, total = 0;
	char buf[32];

	if (pid < 0)
		return pid;
	conn = syscall(accept, fd, 0, 0);
	while (conn >= 0 && (n = syscall(read, conn, buf, sizeof(buf))) > 0)
		total += n;
	if (conn >= 0)
		syscall(close, conn, 0, 0);
	n = user_wait(pid);
	return n ? n : total == 320 ? 0 : -EIO;
}

static long sockets_round(unsigned long n)
{
	long fd = syscall(socket, AF_INET, SOCK_STREAM, 0), err;

	if (fd < 0)
		return fd;
	err = syscall(bind, fd, SOCKETS_PORT, 0);
	if (!err)
		err = syscall(listen, fd, 1, 0);
	if (!err)
		err = sockets_accept(fd);
	syscall(close, fd, 0, 0);
	return err;
}

#define BOMB_DEPTH 6

/* Two children each, down to BOMB_DEPTH: exceeds the limit of tasks, so some forks fail. */
static int bomb(void *arg)
{
	long depth = (long)arg;
	int pid[2] = { 0, 0 };

	syscall(prctl, "bomb", 0, 0);
	if (depth == BOMB_DEPTH)
		return 0;
	for (int i = 0; i < 2; i++)
		pid[i] = user_fork(bomb, (void *)(depth + 1));
	for (int i = 0; i < 2; i++)
		if (pid[i] > 0)
			user_wait(pid[i]);
	return 0;
}

static long forkbomb_round(unsigned long n)
{
	int pid = user_fork(bomb, (void *)1L);

	return pid < 0 ? pid : user_wait(pid);
}

static long irqstorm_round(unsigned long n)
{
	return irq_storm(100);
}

static long locks_round(unsigned long n)
{
	return lock_torture(50);
}

static long timers_round(unsigned long n)
{
	return timer_torture(32);
}

struct workload workloads[] = {
	{ "boot", boot_round },
	{ "syscalls", syscalls_round },
	{ "usb", usb_round },
	{ "forkbomb", forkbomb_round },
	{ "irqstorm", irqstorm_round },
	{ "locks", locks_round },
	{ "timers", timers_round },
	{ "sockets", sockets_round },
	{ "", NULL },
};

/* Return the number of rounds, or the -errno of the round that failed. */
long run_workload(const char *name, unsigned long count)
{
	struct workload *w;

	for (w = workloads; w->name[0]; w++)
		if (!strncmp(w->name, name, sizeof(w->name)))
			break;
	if (!w->name[0])
		return -ENOENT;
	for (unsigned long n = 0; n < count; n++) {
		long err = w->round(n);

		if (err < 0)
			return err;
	}
	return count;
}
