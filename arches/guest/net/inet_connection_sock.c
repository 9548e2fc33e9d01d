// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Connections: who listens, who was accepted, and the bytes on their way. Modelled on
 * net/ipv4/{af_inet,inet_connection_sock,tcp}.c, for a machine that only talks to itself.
 *
 * This file is built with -fipa-sra, as Linux is: the compiler gives static functions other
 * arguments, and names them NAME.isra.0.
 */
#include "mm.h"
#include "net.h"
#include "sched.h"

static LIST_HEAD(listening);
static DEFINE_MUTEX(inet_mutex); /* lists, states and peers of all sockets */

struct sock *inet_create(void)
{
	struct sock *sk = kzalloc(sizeof(*sk), GFP_KERNEL);

	if (!sk)
		return NULL;
	init_waitqueue_head(&sk->wait);
	INIT_LIST_HEAD(&sk->node);
	INIT_LIST_HEAD(&sk->icsk_accept_queue.head);
	return sk;
}

static struct sock *inet_lookup_listener(unsigned int port)
{
	struct sock *sk;

	list_for_each_entry(sk, &listening, node)
		if (sk->port == port)
			return sk;
	return NULL;
}

int inet_bind(struct sock *sk, unsigned int port)
{
	int err = 0;

	mutex_lock(&inet_mutex);
	if (!port || sk->port || sk->state != TCP_CLOSE)
		err = -EINVAL;
	else if (inet_lookup_listener(port))
		err = -EADDRINUSE;
	else
		sk->port = port;
	mutex_unlock(&inet_mutex);
	return err;
}

int inet_csk_listen_start(struct sock *sk, int backlog)
{
	int err = 0;

	mutex_lock(&inet_mutex);
	if (!sk->port || sk->state != TCP_CLOSE) {
		err = -EINVAL;
	} else if (inet_lookup_listener(sk->port)) {
		err = -EADDRINUSE;
	} else {
		sk->state = TCP_LISTEN;
		sk->icsk_accept_queue.max = backlog;
		list_add_tail(&sk->node, &listening);
	}
	mutex_unlock(&inet_mutex);
	return err;
}

/* The compiler passes the two numbers instead of the address. */
static int reqsk_queue_is_full(const struct request_sock_queue *queue)
{
	return queue->qlen > queue->max;
}

static struct sock *reqsk_queue_remove(struct request_sock_queue *queue)
{
	struct sock *sk;

	if (list_empty(&queue->head))
		return NULL;
	sk = list_first_entry(&queue->head, struct sock, node);
	list_del_init(&sk->node);
	queue->qlen--;
	return sk;
}

static void inet_csk_wait_for_connect(struct sock *sk)
{
	wait_event_interruptible(&sk->wait, !list_empty(&sk->icsk_accept_queue.head));
}

/* Wait for a connection to a listening socket and return this end of it. */
struct sock *inet_csk_accept(struct sock *sk)
{
	struct sock *newsk;

	if (READ_ONCE(sk->state) != TCP_LISTEN)
		return ERR_PTR(-EINVAL);
	do {
		inet_csk_wait_for_connect(sk);
		mutex_lock(&inet_mutex);
		newsk = reqsk_queue_remove(&sk->icsk_accept_queue);
		mutex_unlock(&inet_mutex);
	} while (!newsk);
	return newsk;
}

static void tcp_finish_connect(struct sock *sk, struct sock *newsk)
{
	sk->state = newsk->state = TCP_ESTABLISHED;
	sk->peer = newsk;
	newsk->peer = sk;
}

static int tcp_conn_request(struct sock *listener, struct sock *sk)
{
	struct request_sock_queue *queue = &listener->icsk_accept_queue;
	struct sock *newsk;

	if (reqsk_queue_is_full(queue))
		return -ECONNREFUSED;
	newsk = inet_create();
	if (!newsk)
		return -ENOMEM;
	tcp_finish_connect(sk, newsk);
	list_add_tail(&newsk->node, &queue->head);
	queue->qlen++;
	wake_up(&listener->wait);
	return 0;
}

int tcp_v4_connect(struct sock *sk, unsigned int port)
{
	struct sock *listener;
	int err;

	mutex_lock(&inet_mutex);
	listener = inet_lookup_listener(port);
	if (sk->state != TCP_CLOSE)
		err = -EINVAL;
	else
		err = listener ? tcp_conn_request(listener, sk) : -ECONNREFUSED;
	mutex_unlock(&inet_mutex);
	return err;
}

static int tcp_readable(const struct sock *sk)
{
	return READ_ONCE(sk->head) != READ_ONCE(sk->tail) || !READ_ONCE(sk->peer);
}

static size_t tcp_copy_from(struct sock *sk, char *buf, size_t count)
{
	size_t done = 0;

	while (done < count && sk->tail != sk->head)
		buf[done++] = sk->buf[sk->tail++ % SOCK_BUF];
	return done;
}

static size_t tcp_copy_to(struct sock *sk, const char *buf, size_t count)
{
	size_t done = 0;

	while (done < count && sk->head - sk->tail < SOCK_BUF)
		sk->buf[sk->head++ % SOCK_BUF] = buf[done++];
	return done;
}

/* Return 0 at the end: the other end is closed and everything was read. */
ssize_t tcp_recvmsg(struct sock *sk, char *buf, size_t count)
{
	for (;;) {
		size_t done;
		int over;

		mutex_lock(&inet_mutex);
		if (sk->state != TCP_ESTABLISHED) {
			mutex_unlock(&inet_mutex);
			return -ENOTCONN;
		}
		done = tcp_copy_from(sk, buf, count);
		over = done || !count || !sk->peer;
		if (done && sk->peer && sk->peer->blocked) {
			WRITE_ONCE(sk->peer->blocked, 0);
			wake_up(&sk->peer->wait);
		}
		mutex_unlock(&inet_mutex);
		if (over)
			return done;
		wait_event_interruptible(&sk->wait, tcp_readable(sk));
	}
}

ssize_t tcp_sendmsg(struct sock *sk, const char *buf, size_t count)
{
	size_t done = 0;

	while (done < count) {
		mutex_lock(&inet_mutex);
		if (!sk->peer) {
			int err = sk->state == TCP_ESTABLISHED ? -EPIPE : -ENOTCONN;

			mutex_unlock(&inet_mutex);
			return done ? (ssize_t)done : err;
		}
		done += tcp_copy_to(sk->peer, buf + done, count - done);
		WRITE_ONCE(sk->blocked, done < count);
		wake_up(&sk->peer->wait);
		mutex_unlock(&inet_mutex);
		wait_event_interruptible(&sk->wait, !READ_ONCE(sk->blocked) || !READ_ONCE(sk->peer));
	}
	return done;
}

static void tcp_disconnect(struct sock *sk)
{
	if (sk->peer) {
		WRITE_ONCE(sk->peer->peer, NULL);
		wake_up_all(&sk->peer->wait);
	}
}

/* The last file of a socket is closed: nobody else uses it, except its peer. */
void inet_release(struct sock *sk)
{
	struct sock *newsk;

	mutex_lock(&inet_mutex);
	if (sk->state == TCP_LISTEN)
		list_del_init(&sk->node);
	while ((newsk = reqsk_queue_remove(&sk->icsk_accept_queue))) {
		tcp_disconnect(newsk);
		kfree(newsk);
	}
	tcp_disconnect(sk);
	mutex_unlock(&inet_mutex);
	kfree(sk);
}
