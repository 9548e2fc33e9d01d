/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace events of the kernel: event_NAME() calls the tracer's trace_event_NAME() while the
 * host has enabled `__event_NAME`. Modelled on DECLARE_TRACE() in linux/tracepoint.h.
 *
 * The kernel patches a jump into the text for each tracepoint (a static branch). Here an event
 * that is off costs a load, a comparison and a branch that is not taken.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include "irq.h"
#include "mm.h"
#include "sched.h"
#include "tracepoint.h"

struct module;

/* `args` are evaluated only while the event is on. */
#define CALL_EVENT(name, proto, args)                                           \
	do {                                                                    \
		if (unlikely(READ_ONCE(__event_##name.enabled)))                \
			((void (*) proto)(unsigned long)__event_##name.func) args; \
	} while (0)

#define DECLARE_EVENT(name, given, types, passed)                               \
	extern struct tracepoint __event_##name;                                \
	static inline void event_##name given                                   \
	{                                                                       \
		CALL_EVENT(name, types, passed);                                \
	}

#define TASK(p) ((const struct task_fields *)(p))

#define DECLARE_TASK_EVENT(name)                                                \
	DECLARE_EVENT(name, (struct task_struct * p), (const struct task_fields *), (TASK(p)))

DECLARE_TASK_EVENT(sched_waking)
DECLARE_TASK_EVENT(sched_wakeup)
DECLARE_TASK_EVENT(sched_wakeup_new)
DECLARE_TASK_EVENT(sched_process_exit)
DECLARE_TASK_EVENT(sched_process_free)

/* Bits of a sched_switch event's prev_state, from TASK_REPORT_MAX down: preempted, idle ... */
#define TASK_REPORT_MAX 0x100
#define TASK_REPORT_DEAD 0x10
#define TASK_REPORT_ZOMBIE 0x20

/* The state of a task that is switched out. Modelled on __trace_sched_switch_state(). */
static inline long sched_switch_state(int preempt, const struct task_struct *prev)
{
	if (preempt)
		return TASK_REPORT_MAX;
	if (prev->state == TASK_DEAD)
		return prev->exit_state == EXIT_ZOMBIE ? TASK_REPORT_ZOMBIE : TASK_REPORT_DEAD;
	return prev->state & TASK_NORMAL;
}

DECLARE_EVENT(sched_switch, (int preempt, struct task_struct *prev, struct task_struct *next),
	      (const struct task_fields *, const struct task_fields *, long),
	      (TASK(prev), TASK(next), sched_switch_state(preempt, prev)))
DECLARE_EVENT(sched_migrate_task, (struct task_struct * p, int dest_cpu),
	      (const struct task_fields *, int), (TASK(p), dest_cpu))
DECLARE_EVENT(sched_process_fork, (struct task_struct * parent, struct task_struct *child),
	      (const struct task_fields *, const struct task_fields *), (TASK(parent), TASK(child)))
DECLARE_EVENT(sched_process_exec, (const char *filename, struct task_struct *p),
	      (const char *, const struct task_fields *), (filename, TASK(p)))
DECLARE_EVENT(irq_handler_entry, (int irq, const char *name), (int, const char *),
	      (irq, name ? name : ""))
DECLARE_EVENT(irq_handler_exit, (int irq, int ret), (int, int), (irq, ret))
DECLARE_EVENT(softirq_entry, (u32 vec), (u32), (vec))
DECLARE_EVENT(softirq_exit, (u32 vec), (u32), (vec))
DECLARE_EVENT(softirq_raise, (u32 vec), (u32), (vec))
DECLARE_EVENT(timer_init, (struct timer_list * t), (const void *), (t))
DECLARE_EVENT(timer_start, (struct timer_list * t, unsigned long expires, int cpu),
	      (const void *, unsigned long, unsigned long, unsigned long, u32),
	      (t, FUNCTION_CODE(t->function), expires, jiffies, cpu))
DECLARE_EVENT(timer_cancel, (struct timer_list * t), (const void *), (t))
DECLARE_EVENT(timer_expire_entry, (struct timer_list * t, unsigned long baseclk),
	      (const void *, unsigned long, unsigned long, unsigned long),
	      (t, FUNCTION_CODE(t->function), jiffies, baseclk))
DECLARE_EVENT(timer_expire_exit, (struct timer_list * t), (const void *), (t))
DECLARE_EVENT(sys_enter, (long id, long a, long b, long c), (long, long, long, long),
	      (id, a, b, c))
DECLARE_EVENT(sys_exit, (long id, long ret), (long, long), (id, ret))
DECLARE_EVENT(kmalloc, (unsigned long call_site, const void *ptr, size_t bytes_req, size_t bytes_alloc,
	       gfp_t gfp),
	      (unsigned long, const void *, size_t, size_t, unsigned long),
	      (call_site, ptr, bytes_req, bytes_alloc, gfp))
DECLARE_EVENT(kfree, (unsigned long call_site, const void *ptr),
	      (unsigned long, const void *), (call_site, ptr))
DECLARE_EVENT(kmem_cache_alloc, (unsigned long call_site, const void *ptr, struct kmem_cache *s, gfp_t gfp),
	      (unsigned long, const void *, size_t, size_t, unsigned long),
	      (call_site, ptr, s->object_size, s->size, gfp))
DECLARE_EVENT(kmem_cache_free, (unsigned long call_site, const void *ptr, struct kmem_cache *s),
	      (unsigned long, const void *, const char *), (call_site, ptr, s->name))
DECLARE_EVENT(mm_page_alloc, (struct page * page, unsigned int order, gfp_t gfp),
	      (unsigned long, unsigned int, unsigned long),
	      (page ? page_to_pfn(page) : -1ul, order, gfp))
DECLARE_EVENT(mm_page_free, (struct page * page, unsigned int order),
	      (unsigned long, unsigned int), (page_to_pfn(page), order))
DECLARE_EVENT(module_load, (const char *name), (const char *), (name))
DECLARE_EVENT(module_free, (const char *name), (const char *), (name))
DECLARE_EVENT(module_get, (const char *name, unsigned long ip, int refcnt),
	      (const char *, unsigned long, int), (name, ip, refcnt))
DECLARE_EVENT(module_put, (const char *name, unsigned long ip, int refcnt),
	      (const char *, unsigned long, int), (name, ip, refcnt))

#ifdef __mips__
#define SIGCHLD 18
#else
#define SIGCHLD 17
#endif
#define CLD_EXITED 1
#define TRACE_SIGNAL_IGNORED 1

/* A signal to all threads of the process `p`. */
DECLARE_EVENT(signal_generate, (int sig, int code, struct task_struct *p, int result),
	      (int, int, const struct task_fields *, int), (sig, code, TASK(p), result))

/* Address of the code that called this function. */
#define RET_IP ((unsigned long)__builtin_return_address(0))

#endif
