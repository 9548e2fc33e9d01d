/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets: streams between tasks of this machine. Modelled on net/{sock,inet_connection_sock}.h. */
#ifndef NET_H
#define NET_H

#include "lock.h"

#define AF_INET 2
#define SOCK_STREAM 1

enum { TCP_CLOSE, TCP_ESTABLISHED, TCP_LISTEN };

#define SOCK_BUF 256

struct sock;

/* Connections that nobody has accepted yet. */
struct request_sock_queue {
	struct list_head head;
	int qlen, max;
};

struct sock {
	int state;
	unsigned int port;        /* 0: none */
	wait_queue_head_t wait;   /* for a connection, bytes, or room for bytes */
	struct list_head node;    /* in the list of listeners, or in the queue of one */
	struct request_sock_queue icsk_accept_queue;
	struct sock *peer;        /* the other end; NULL after it was closed */
	int blocked;              /* a writer waits for room in the peer's buffer */
	unsigned int head, tail;  /* total bytes received and read */
	char buf[SOCK_BUF];
};

/* net/inet_connection_sock.c */
struct sock *inet_create(void);
int inet_bind(struct sock *sk, unsigned int port);
int inet_csk_listen_start(struct sock *sk, int backlog);
struct sock *inet_csk_accept(struct sock *sk);
int tcp_v4_connect(struct sock *sk, unsigned int port);
ssize_t tcp_recvmsg(struct sock *sk, char *buf, size_t count);
ssize_t tcp_sendmsg(struct sock *sk, const char *buf, size_t count);
void inet_release(struct sock *sk);

/* net/socket.c */
int __sys_socket(int family, int type);
int __sys_bind(unsigned int fd, unsigned int port);
int __sys_listen(unsigned int fd, int backlog);
int __sys_accept4(unsigned int fd);
int __sys_connect(unsigned int fd, unsigned int port);

#endif
