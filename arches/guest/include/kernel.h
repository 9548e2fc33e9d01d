/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Definitions that every file uses: annotations, lists, error numbers, strings
 * and printk. Modelled on linux/{compiler,list,kernel,errno}.h.
 *
 * The whole kernel is built with -fno-inline: a function has a call site unless
 * it is `inline` (always inlined, no site) or `notrace` (called, no site).
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "machine.h"

typedef unsigned long size_t;
typedef long ssize_t;
typedef long long loff_t;
typedef unsigned int gfp_t;

#define NULL ((void *)0)
#define notrace NO_CALL_SITE
/* Functions that an NMI calls were left out of ftrace in 2008 (commit 3d0833953e). */
#if defined(CONFIG_FTRACED) && !defined(CONFIG_TRACE_NMI)
#define notrace_nmi notrace
#else
#define notrace_nmi
#endif
#define noreturn __attribute__((noreturn))
#define __printf(f, a) __attribute__((format(printf, f, a)))
#define __used __attribute__((used))
/* Interrupt entry functions, between __irqentry_text_start and __irqentry_text_end. */
#define __irq_entry __attribute__((section(".irqentry.text")))
#define inline inline __attribute__((always_inline, no_instrument_function, unused))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier() __asm__ volatile("" ::: "memory")
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define container_of(p, type, member) ((type *)((char *)(p) - __builtin_offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ALIGN(x, a) (((x) + (a) - 1) & ~((unsigned long)(a) - 1))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

#define NR_CPUS 8
#define HZ 1000

enum {
	EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EIO = 5, ENXIO = 6, ENOEXEC = 8,
	EBADF = 9, ECHILD = 10, EAGAIN = 11, ENOMEM = 12, EFAULT = 14, EBUSY = 16,
	EEXIST = 17, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, ENFILE = 23,
	EMFILE = 24, EFBIG = 27, ENOSPC = 28, EPIPE = 32, ENAMETOOLONG = 36, ENOSYS = 38,
	ETIMEDOUT = 110, ECONNREFUSED = 111, EADDRINUSE = 98,
	ENOTCONN = 107, ENOTSOCK = 88, EAFNOSUPPORT = 97,
};

/* Error numbers in pointers, as in linux/err.h. */
#define MAX_ERRNO 4095
#define ERR_PTR(e) ((void *)(long)(e))
#define PTR_ERR(p) ((long)(p))
#define IS_ERR(p) ((unsigned long)(p) >= (unsigned long)-MAX_ERRNO)

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)
#define list_entry(p, type, member) container_of(p, type, member)
#define list_first_entry(h, type, member) list_entry((h)->next, type, member)
#define list_for_each_entry(pos, head, member)                                  \
	for (pos = list_entry((head)->next, __typeof__(*pos), member);          \
	     &pos->member != (head);                                            \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))
#define list_for_each_entry_safe(pos, n, head, member)                          \
	for (pos = list_entry((head)->next, __typeof__(*pos), member),          \
	    n = list_entry(pos->member.next, __typeof__(*pos), member);         \
	     &pos->member != (head);                                            \
	     pos = n, n = list_entry(n->member.next, __typeof__(*n), member))

static inline void INIT_LIST_HEAD(struct list_head *h)
{
	h->next = h->prev = h;
}

static inline int list_empty(const struct list_head *h)
{
	return READ_ONCE(h->next) == h;
}

static inline void list_insert(struct list_head *n, struct list_head *prev, struct list_head *next)
{
	n->next = next;
	n->prev = prev;
	next->prev = n;
	prev->next = n;
}

static inline void list_add(struct list_head *n, struct list_head *h)
{
	list_insert(n, h, h->next);
}

static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_insert(n, h->prev, h);
}

static inline void list_del_init(struct list_head *n)
{
	n->next->prev = n->prev;
	n->prev->next = n->next;
	INIT_LIST_HEAD(n);
}

static inline void list_splice_init(struct list_head *from, struct list_head *to)
{
	if (from->next == from)
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	INIT_LIST_HEAD(from);
}

/* lib/string.c; no call sites because the compiler emits calls to some of them */
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
ssize_t strscpy(char *to, const char *from, size_t size);

/* lib/vsprintf.c: %d %u %x %c %s %p, l, width, 0 and - */
int vsnprintf(char *buf, size_t size, const char *fmt, __builtin_va_list args);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
int vbin_printf(u32 *bin, size_t words, const char *fmt, __builtin_va_list args);
long simple_strtol(const char *s, char **end);

/* init/printk.c */
int printk(const char *fmt, ...) __printf(1, 2);
void panic(const char *fmt, ...) __printf(1, 2) noreturn;
#define BUG_ON(c) do { if (unlikely(c)) panic("BUG at %s:%d: " #c, __FILE__, __LINE__); } while (0)

enum system_states { SYSTEM_BOOTING, SYSTEM_SCHEDULING, SYSTEM_RUNNING };
extern volatile int system_state;

#endif
