// SPDX-License-Identifier: GPL-2.0-or-later
/* Sockets as files, and their system calls. Modelled on net/socket.c. */
#include "fs.h"
#include "net.h"
#include "sched.h"

static ssize_t sock_read(struct file *file, char *buf, size_t count, loff_t *pos)
{
	return tcp_recvmsg(file->private_data, buf, count);
}

static ssize_t sock_write(struct file *file, const char *buf, size_t count, loff_t *pos)
{
	return tcp_sendmsg(file->private_data, buf, count);
}

static int sock_close(struct inode *inode, struct file *file)
{
	inet_release(file->private_data);
	return 0;
}

static const struct file_operations socket_file_ops = {
	.read = sock_read,
	.write = sock_write,
	.release = sock_close,
};

static struct file *sock_alloc_file(struct sock *sk)
{
	struct file *file = alloc_empty_file(O_RDWR);

	if (file) {
		file->f_op = &socket_file_ops;
		file->private_data = sk;
	}
	return file;
}

/* Return a descriptor. If none is free, release the socket. */
static int sock_map_fd(struct sock *sk)
{
	struct file *file = sock_alloc_file(sk);
	int fd;

	if (!file) {
		inet_release(sk);
		return -ENFILE;
	}
	fd = get_unused_fd_flags();
	if (fd < 0)
		fput(file);
	else
		fd_install(fd, file);
	return fd;
}

/* Return the file of a socket with a reference for the caller. */
static struct file *sockfd_lookup(unsigned int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op != &socket_file_ops) {
		fput(file);
		return ERR_PTR(-ENOTSOCK);
	}
	return file;
}

int __sys_socket(int family, int type)
{
	struct sock *sk;

	if (family != AF_INET)
		return -EAFNOSUPPORT;
	if (type != SOCK_STREAM)
		return -EINVAL;
	sk = inet_create();
	return sk ? sock_map_fd(sk) : -ENOMEM;
}

int __sys_bind(unsigned int fd, unsigned int port)
{
	struct file *file = sockfd_lookup(fd);
	int err;

	if (IS_ERR(file))
		return PTR_ERR(file);
	err = inet_bind(file->private_data, port);
	fput(file);
	return err;
}

int __sys_listen(unsigned int fd, int backlog)
{
	struct file *file = sockfd_lookup(fd);
	int err;

	if (IS_ERR(file))
		return PTR_ERR(file);
	err = inet_csk_listen_start(file->private_data, backlog);
	fput(file);
	return err;
}

int __sys_accept4(unsigned int fd)
{
	struct file *file = sockfd_lookup(fd);
	struct sock *newsk;

	if (IS_ERR(file))
		return PTR_ERR(file);
	newsk = inet_csk_accept(file->private_data);
	fput(file);
	return IS_ERR(newsk) ? PTR_ERR(newsk) : sock_map_fd(newsk);
}

int __sys_connect(unsigned int fd, unsigned int port)
{
	struct file *file = sockfd_lookup(fd);
	int err;

	if (IS_ERR(file))
		return PTR_ERR(file);
	err = tcp_v4_connect(file->private_data, port);
	fput(file);
	return err;
}
