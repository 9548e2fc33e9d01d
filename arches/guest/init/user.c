// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The programs: they stand for user space, so they have no call sites. They
 * enter the kernel only by syscall(). The exception is sh, whose children run
 * the machine's requests.
 */
#include "exec.h"
#include "preempt.h"
#include "sched.h"
#include "syscall.h"
#include "workload.h"

int user_fork(int (*fn)(void *), void *arg)
{
	return syscall(fork, fn, arg, 0);
}

/* Wait for one child and return its exit code, or -errno. */
int user_wait(int pid)
{
	int status = 0;
	long ret = syscall(wait4, pid, &status, 0);

	return ret < 0 ? ret : status;
}

/* Returns only if the program cannot be started. */
int user_exec(const char *path)
{
	int err = syscall(execve, path, 0, 0);

	if (!err)
		syscall(exit, current->mm->entry(), 0, 0);
	return err;
}

static int exec_child(void *path)
{
	return user_exec(path);
}

static int user_cat(const char *path)
{
	char buf[128];
	int fd = syscall(openat, AT_FDCWD, path, O_RDONLY), n, total = 0;

	if (fd < 0)
		return fd;
	while ((n = syscall(read, fd, buf, sizeof(buf))) > 0)
		total += n;
	syscall(close, fd, 0, 0);
	return n < 0 ? n : total;
}

static int true_main(void)
{
	return 0;
}

/* A small version of what boot scripts do. */
static int rc_main(void)
{
	char names[256];
	struct kstat stat;
	int fd, err;

	err = syscall(mount, "ramfs", "/mnt", 0);
	if (err)
		return err;
	fd = syscall(open, "/mnt/motd", O_CREAT | O_WRONLY, 0);
	syscall(write, fd, "welcome\n", 8);
	syscall(close, fd, 0, 0);
	user_cat("/mnt/motd");
	user_cat("/proc/version");
	user_cat("/proc/meminfo");
	syscall(stat, "/bin/true", &stat, 0);
	fd = syscall(open, "/bin", O_RDONLY, 0);
	while (syscall(getdents, fd, names, sizeof(names)) > 0)
		;
	syscall(close, fd, 0, 0);
	for (int i = 0; i < 3; i++) {
		int pid = user_fork(exec_child, "/bin/true");

		if (pid < 0)
			return pid;
		user_wait(pid);
	}
	syscall(unlink, "/mnt/motd", 0, 0);
	return syscall(umount, "/mnt", 0, 0);
}

/* Wakes up regularly and reads the time and the load. */
static int crond_main(void)
{
	for (;;) {
		syscall(nanosleep, 50000000, 0, 0);
		syscall(time, 0, 0, 0);
		user_cat("/proc/loadavg");
	}
	return 0;
}

static int ls_main(void)
{
	char names[128];
	int fd = syscall(openat, AT_FDCWD, "/", O_RDONLY);

	while (syscall(getdents, fd, names, sizeof(names)) > 0)
		;
	return syscall(close, fd, 0, 0);
}

/* Sends echo requests to itself through a pipe, and waits between them. */
static int ping_main(void)
{
	char packet[64] = "ping";
	int fds[2];

	if (syscall(pipe, fds, 0, 0))
		return 1;
	for (int n = 0; n < 3; n++) {
		syscall(write, fds[1], packet, sizeof(packet));
		syscall(read, fds[0], packet, sizeof(packet));
		syscall(nanosleep, 1000000, 0, 0);
	}
	syscall(close, fds[0], 0, 0);
	syscall(close, fds[1], 0, 0);
	return 0;
}

/* The function of a request: see call_as_client(). */
typedef long (*request_fn)(long, long, long, long, long, long);
/* A process of the host that uses this machine's files, and the child that it has forked. */
struct client {
	int pid, child, exec;
};

/* Programs that clients execute here, by number; the first stands for all others. */
static const char *const client_programs[] = { "/bin/true", "/bin/ping", "/bin/ls" };

static int client_child(void *data)
{
	const struct client *client = data;

	if (!client->exec)
		return 0;
	return user_exec(client_programs[client->exec < 4 ? client->exec - 1 : 0]);
}

static int client_main(void *data)
{
	const struct client *client = data;

	if (!client->child)
		return client_child(data);
	set_last_pid(client->child - 1);
	return user_wait(user_fork(client_child, data));
}

/*
 * Repeat a client's fork or exec in tasks with the same pids; called by the machine as a request.
 * `exec` is 0 or a program's number, from 1.
 */
long run_client(long pid, long child, long exec, long nice)
{
	struct client client = { .pid = pid, .child = child, .exec = exec };
	int old = set_last_pid(pid - 1);
	long ret;

	set_user_nice(current, nice);
	ret = user_wait(user_fork(client_main, &client));
	set_last_pid(old);
	return ret;
}

/* Called by the machine as a request, in a task of a client that has changed its directory. */
long client_chdir(const char *path)
{
	return syscall(chdir, path, 0, 0);
}

struct client_call {
	request_fn function;
	long argument[3], result;
};

static int client_call_main(void *data)
{
	struct client_call *call = data;

	call->result = call->function(call->argument[0], call->argument[1], call->argument[2],
				      0, 0, 0);
	return 0;
}

/* Call a function in a task of the client's pid; called by the machine as a request. */
long call_as_client(long pid, long function, long first, long second, long third)
{
	struct client_call call = { (request_fn)function, { first, second, third }, -EAGAIN };
	int old = set_last_pid(pid - 1);

	user_wait(user_fork(client_call_main, &call));
	set_last_pid(old);
	return call.result;
}

static int serve_request(void *data)
{
	const struct host_request *req = data;
	u32 sequence = req->sequence;
	long result;

	syscall(prctl, req->comm, 0, 0);
	if (req->kind == REQUEST_CALL)
		result = ((request_fn)(unsigned long)req->function)(
			req->argument[0], req->argument[1], req->argument[2],
			req->argument[3], req->argument[4], req->argument[5]);
	else if (req->kind == REQUEST_WORKLOAD)
		result = run_workload(req->name, req->count);
	else
		result = -EINVAL;
	machine_call(HC_REQUEST_DONE, sequence, result, 0, 0);
	return 0;
}

/* `req` holds one request: the next arrives after this one is answered. */
static int sh_main(void)
{
	static struct host_request req;
	int fd = syscall(open, "/dev/console", O_RDWR, 0);

	for (;;) {
		if (syscall(read, fd, &req, sizeof(req)) < 0)
			continue;
		if (user_fork(serve_request, &req) < 0)
			machine_call(HC_REQUEST_DONE, req.sequence, -EAGAIN, 0, 0);
		while (syscall(wait4, -1, 0, 1) > 0)
			;
	}
	return 0;
}

static int init_main(void)
{
	user_fork(exec_child, "/bin/sh");
	user_fork(exec_child, "/sbin/crond");
	for (;;)
		syscall(wait4, -1, 0, 0);
	return 0;
}

const struct user_program user_programs[] = {
	{ "/sbin/init", "init", init_main },
	{ "/sbin/crond", "crond", crond_main },
	{ "/sbin/rc", "rc", rc_main },
	{ "/bin/sh", "sh", sh_main },
	{ "/bin/true", "true", true_main },
	{ "/bin/ping", "ping", ping_main },
	{ "/bin/ls", "ls", ls_main },
	{ NULL, NULL, NULL },
};
