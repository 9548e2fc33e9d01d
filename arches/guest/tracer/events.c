// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's trace events: their fields, how they are printed, and the functions that fill
 * them. Fields and texts are those of Linux 6.1, in this guest's sizes (include/trace/events/).
 */
#include "trace_events.h"

typedef int pid_t;
typedef unsigned long size_t;
typedef u8 bool;

/*
 * A list of fields is a macro of four: F(type, name), A(type, name, length) for an array, P for
 * a pointer, and S(name) for a string, which is at the end of the event. From each list come a
 * structure and its description.
 */
#define MEMBER(e, type, name) type name;
#define MEMBER_ARRAY(e, type, name, length) type name[length];
#define MEMBER_STRING(e, name) u32 name;
#define IS_SIGNED(type) ((type)-1 < (type)1)
#define OFFSET(e, name) __builtin_offsetof(struct e##_entry, name)
#define ROW(e, type, name) { #type, #name, OFFSET(e, name), sizeof(type), IS_SIGNED(type), 0 },
#define ROW_ARRAY(e, type, name, length)                                        \
	{ #type, #name "[" #length "]", OFFSET(e, name), sizeof(type) * length, IS_SIGNED(type), 0 },
#define ROW_POINTER(e, type, name) { #type, #name, OFFSET(e, name), sizeof(type), 0, 0 },
#define ROW_STRING(e, name)                                                     \
	{ "__data_loc char[]", #name, OFFSET(e, name), sizeof(u32), IS_SIGNED(char), 0 },

#define STRING_MAX 64 /* bytes of a string in an event */

/* An event class: `size` is that of an event without its string. */
#define EVENT_CLASS(e, fields)                                                  \
	struct e##_entry {                                                      \
		struct trace_entry ent;                                         \
		fields(e, MEMBER, MEMBER_ARRAY, MEMBER, MEMBER_STRING)          \
		char string[STRING_MAX] __attribute__((aligned(4)));            \
	};                                                                      \
	static const struct trace_event_field e##_fields[] = {                  \
		fields(e, ROW, ROW_ARRAY, ROW_POINTER, ROW_STRING) { 0 }        \
	};
#define EVENT(group, event, e, ...)                                             \
	static const struct trace_event_call event_##event = {                  \
		group, #event, #__VA_ARGS__, e##_fields                         \
	};

#define TRACE_EVENTS(X)                                                         \
	X(sched_waking) X(sched_wakeup) X(sched_wakeup_new) X(sched_switch)     \
	X(sched_migrate_task) X(sched_process_free) X(sched_process_exit)       \
	X(sched_process_fork) X(sched_process_exec)                             \
	X(signal_generate) X(irq_handler_entry) X(irq_handler_exit)             \
	X(softirq_entry) X(softirq_exit) X(softirq_raise)                       \
	X(timer_init) X(timer_start) X(timer_expire_entry) X(timer_expire_exit) \
	X(timer_cancel) X(sys_enter) X(sys_exit)                                \
	X(kmalloc) X(kmem_cache_alloc) X(kfree) X(kmem_cache_free)              \
	X(mm_page_alloc) X(mm_page_free)                                        \
	X(module_load) X(module_free) X(module_get) X(module_put)

#define ID(event) ID_##event,
enum { BEFORE_FIRST = FIRST_TRACE_EVENT_ID - 1, TRACE_EVENTS(ID) };

#define SIZE(e) __builtin_offsetof(struct e##_entry, string)

/* Begin an event of class `e`, all zeros, or return. */
#define BEGIN(e)                                                                \
	struct trace_event_context context;                                     \
	struct e##_entry entry;                                                 \
	u32 size = SIZE(e);                                                     \
	if (!trace_event_begin(&context))                                       \
		return;                                                         \
	clear(&entry.ent, size)
#define COMMIT(event) trace_event_commit(&context, ID_##event, &entry.ent, size, EVENT_IP)

static void clear(struct trace_entry *entry, u32 size)
{
	volatile u32 *words = (volatile u32 *)entry;

	for (u32 n = 0; n < size / 4; n++)
		words[n] = 0;
}

static void set_comm(char *to, const struct task_fields *task)
{
	for (int n = 0; n < TASK_COMM_LEN; n++)
		to[n] = task->comm[n];
}

/* Store a string of at most `most` bytes at the end of an event; return where it is. */
static u32 set_string(char *to, const char *from, u32 *size, u32 most)
{
	u32 n = 0, where = *size;

	while (n < most - 1 && from[n]) {
		to[n] = from[n];
		n++;
	}
	to[n++] = 0;
	where |= n << 16;
	while (n % 4)
		to[n++] = 0;
	*size += n;
	return where;
}

#define SET_STRING(name, from) \
	(entry.name = set_string(entry.string, from, &size, STRING_MAX))

/* ---- sched -------------------------------------------------------------- */

#define SCHED_WAKEUP(e, F, A, P, S)                                             \
	A(e, char, comm, 16) F(e, pid_t, pid) F(e, int, prio) F(e, int, target_cpu)
EVENT_CLASS(sched_wakeup, SCHED_WAKEUP)
#define WAKEUP_EVENT(event)                                                     \
	EVENT("sched", event, sched_wakeup, "comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, \
	      REC->pid, REC->prio, REC->target_cpu)                             \
	void trace_event_##event(const struct task_fields *p)                   \
	{                                                                       \
		BEGIN(sched_wakeup);                                            \
		set_comm(entry.comm, p);                                        \
		entry.pid = context.other_pid = p->pid;                         \
		entry.prio = p->prio;                                           \
		entry.target_cpu = p->cpu;                                      \
		COMMIT(event);                                                  \
	}
WAKEUP_EVENT(sched_waking)
WAKEUP_EVENT(sched_wakeup)
WAKEUP_EVENT(sched_wakeup_new)

#define SCHED_SWITCH(e, F, A, P, S)                                             \
	A(e, char, prev_comm, 16) F(e, pid_t, prev_pid) F(e, int, prev_prio)    \
	F(e, long, prev_state)                                                  \
	A(e, char, next_comm, 16) F(e, pid_t, next_pid) F(e, int, next_prio)
EVENT_CLASS(sched_switch, SCHED_SWITCH)
EVENT("sched", sched_switch, sched_switch, "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio)

void trace_event_sched_switch(const struct task_fields *prev, const struct task_fields *next,
			      long prev_state)
{
	BEGIN(sched_switch);
	set_comm(entry.prev_comm, prev);
	entry.prev_pid = prev->pid;
	entry.prev_prio = prev->prio;
	entry.prev_state = prev_state;
	set_comm(entry.next_comm, next);
	entry.next_pid = context.other_pid = next->pid;
	entry.next_prio = next->prio;
	COMMIT(sched_switch);
}

#define SCHED_MIGRATE(e, F, A, P, S)                                            \
	A(e, char, comm, 16) F(e, pid_t, pid) F(e, int, prio)                   \
	F(e, int, orig_cpu) F(e, int, dest_cpu)
EVENT_CLASS(sched_migrate_task, SCHED_MIGRATE)
EVENT("sched", sched_migrate_task, sched_migrate_task, "comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", REC->comm, REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu)

void trace_event_sched_migrate_task(const struct task_fields *p, int dest_cpu)
{
	BEGIN(sched_migrate_task);
	set_comm(entry.comm, p);
	entry.pid = p->pid;
	entry.prio = p->prio;
	entry.orig_cpu = p->cpu;
	entry.dest_cpu = dest_cpu;
	COMMIT(sched_migrate_task);
}

#define SCHED_PROCESS(e, F, A, P, S) A(e, char, comm, 16) F(e, pid_t, pid) F(e, int, prio)
EVENT_CLASS(sched_process, SCHED_PROCESS)
#define PROCESS_EVENT(event)                                                    \
	EVENT("sched", event, sched_process, "comm=%s pid=%d prio=%d", REC->comm, REC->pid, \
	      REC->prio)                                                        \
	void trace_event_##event(const struct task_fields *p)                   \
	{                                                                       \
		BEGIN(sched_process);                                           \
		set_comm(entry.comm, p);                                        \
		entry.pid = p->pid;                                             \
		entry.prio = p->prio;                                           \
		COMMIT(event);                                                  \
	}
PROCESS_EVENT(sched_process_free)
PROCESS_EVENT(sched_process_exit)

#define SCHED_FORK(e, F, A, P, S)                                               \
	A(e, char, parent_comm, 16) F(e, pid_t, parent_pid)                     \
	A(e, char, child_comm, 16) F(e, pid_t, child_pid)
EVENT_CLASS(sched_process_fork, SCHED_FORK)
EVENT("sched", sched_process_fork, sched_process_fork, "comm=%s pid=%d child_comm=%s child_pid=%d", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid)

void trace_event_sched_process_fork(const struct task_fields *parent,
				    const struct task_fields *child)
{
	BEGIN(sched_process_fork);
	set_comm(entry.parent_comm, parent);
	entry.parent_pid = parent->pid;
	set_comm(entry.child_comm, child);
	entry.child_pid = child->pid;
	COMMIT(sched_process_fork);
}

#define SCHED_EXEC(e, F, A, P, S) S(e, filename) F(e, pid_t, pid) F(e, pid_t, old_pid)
EVENT_CLASS(sched_process_exec, SCHED_EXEC)
EVENT("sched", sched_process_exec, sched_process_exec, "filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid)

void trace_event_sched_process_exec(const char *filename, const struct task_fields *p)
{
	BEGIN(sched_process_exec);
	SET_STRING(filename, filename);
	entry.pid = entry.old_pid = p->pid;
	COMMIT(sched_process_exec);
}

/* ---- signal ------------------------------------------------------------- */

#define SIGNAL_GENERATE(e, F, A, P, S)                                          \
	F(e, int, sig) F(e, int, errno) F(e, int, code) A(e, char, comm, 16)    \
	F(e, pid_t, pid) F(e, int, group) F(e, int, result)
EVENT_CLASS(signal_generate, SIGNAL_GENERATE)
EVENT("signal", signal_generate, signal_generate, "sig=%d errno=%d code=%d comm=%s pid=%d grp=%d res=%d", REC->sig, REC->errno, REC->code, REC->comm, REC->pid, REC->group, REC->result)

void trace_event_signal_generate(int sig, int code, const struct task_fields *p, int result)
{
	BEGIN(signal_generate);
	entry.sig = sig;
	entry.code = code;
	set_comm(entry.comm, p);
	entry.pid = p->pid;
	entry.group = 1;
	entry.result = result;
	COMMIT(signal_generate);
}

/* ---- irq ---------------------------------------------------------------- */

#define IRQ_ENTRY(e, F, A, P, S) F(e, int, irq) S(e, name)
EVENT_CLASS(irq_handler_entry, IRQ_ENTRY)
EVENT("irq", irq_handler_entry, irq_handler_entry, "irq=%d name=%s", REC->irq, __get_str(name))

void trace_event_irq_handler_entry(int irq, const char *name)
{
	BEGIN(irq_handler_entry);
	entry.irq = irq;
	SET_STRING(name, name);
	COMMIT(irq_handler_entry);
}

#define IRQ_EXIT(e, F, A, P, S) F(e, int, irq) F(e, int, ret)
EVENT_CLASS(irq_handler_exit, IRQ_EXIT)
EVENT("irq", irq_handler_exit, irq_handler_exit, "irq=%d ret=%s", REC->irq, REC->ret ? "handled" : "unhandled")

void trace_event_irq_handler_exit(int irq, int ret)
{
	BEGIN(irq_handler_exit);
	entry.irq = irq;
	entry.ret = ret;
	COMMIT(irq_handler_exit);
}

/* The numbers are those of this kernel's enum. */
#define SOFTIRQ(e, F, A, P, S) F(e, unsigned int, vec)
EVENT_CLASS(softirq, SOFTIRQ)
#define SOFTIRQ_EVENT(event)                                                    \
	EVENT("irq", event, softirq, "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }, { 2, "NET_RX" }, { 3, "TASKLET" }, { 4, "SCHED" }, { 5, "RCU" })) \
	void trace_event_##event(u32 vec)                                       \
	{                                                                       \
		BEGIN(softirq);                                                 \
		entry.vec = vec;                                                \
		COMMIT(event);                                                  \
	}
SOFTIRQ_EVENT(softirq_entry)
SOFTIRQ_EVENT(softirq_exit)
SOFTIRQ_EVENT(softirq_raise)

/* ---- timer -------------------------------------------------------------- */

#define TIMER(e, F, A, P, S) P(e, void *, timer)
EVENT_CLASS(timer_class, TIMER)
#define TIMER_EVENT(event)                                                      \
	EVENT("timer", event, timer_class, "timer=%p", REC->timer)              \
	void trace_event_##event(void *timer)                                   \
	{                                                                       \
		BEGIN(timer_class);                                             \
		entry.timer = timer;                                            \
		COMMIT(event);                                                  \
	}
TIMER_EVENT(timer_init)
TIMER_EVENT(timer_expire_exit)
TIMER_EVENT(timer_cancel)

/* The kernel writes the mask of the flags as a sum, which libtraceevent misreads. */
#define TIMER_START(e, F, A, P, S)                                              \
	P(e, void *, timer) P(e, void *, function) F(e, unsigned long, expires) \
	F(e, unsigned long, now) F(e, unsigned int, flags)
EVENT_CLASS(timer_start, TIMER_START)
EVENT("timer", timer_start, timer_start, "timer=%p function=%ps expires=%lu [timeout=%ld] cpu=%u idx=%u flags=%s", REC->timer, REC->function, REC->expires, (long)REC->expires - REC->now, REC->flags & 0x0003FFFF, REC->flags >> 22, __print_flags(REC->flags & 0x003c0000, "|", { 0x00040000, "M" }, { 0x00080000, "D" }, { 0x00100000, "P" }, { 0x00200000, "I" }))

void trace_event_timer_start(void *timer, unsigned long function, unsigned long expires,
			     unsigned long now, u32 cpu)
{
	BEGIN(timer_start);
	entry.timer = timer;
	entry.function = (void *)function;
	entry.expires = expires;
	entry.now = now;
	entry.flags = cpu | expires % 64 << 22; /* the bucket of the wheel */
	COMMIT(timer_start);
}

#define TIMER_EXPIRE(e, F, A, P, S)                                             \
	P(e, void *, timer) F(e, unsigned long, now) P(e, void *, function)     \
	F(e, unsigned long, baseclk)
EVENT_CLASS(timer_expire_entry, TIMER_EXPIRE)
EVENT("timer", timer_expire_entry, timer_expire_entry, "timer=%p function=%ps now=%lu baseclk=%lu", REC->timer, REC->function, REC->now, REC->baseclk)

void trace_event_timer_expire_entry(void *timer, unsigned long function, unsigned long now,
				    unsigned long baseclk)
{
	BEGIN(timer_expire_entry);
	entry.timer = timer;
	entry.now = now;
	entry.function = (void *)function;
	entry.baseclk = baseclk;
	COMMIT(timer_expire_entry);
}

/* ---- raw_syscalls ------------------------------------------------------- */

#define SYS_ENTER(e, F, A, P, S) F(e, long, id) A(e, unsigned long, args, 6)
EVENT_CLASS(sys_enter, SYS_ENTER)
EVENT("raw_syscalls", sys_enter, sys_enter, "NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)", REC->id, REC->args[0], REC->args[1], REC->args[2], REC->args[3], REC->args[4], REC->args[5])

/* System calls of this kernel take three arguments. */
void trace_event_sys_enter(long id, long a, long b, long c)
{
	BEGIN(sys_enter);
	entry.id = id;
	entry.args[0] = a;
	entry.args[1] = b;
	entry.args[2] = c;
	COMMIT(sys_enter);
}

#define SYS_EXIT(e, F, A, P, S) F(e, long, id) F(e, long, ret)
EVENT_CLASS(sys_exit, SYS_EXIT)
EVENT("raw_syscalls", sys_exit, sys_exit, "NR %ld = %ld", REC->id, REC->ret)

void trace_event_sys_exit(long id, long ret)
{
	BEGIN(sys_exit);
	entry.id = id;
	entry.ret = ret;
	COMMIT(sys_exit);
}

/* ---- kmem --------------------------------------------------------------- */

/* There is one node, and no accounting. */
#define KMEM_ALLOC(e, F, A, P, S)                                               \
	F(e, unsigned long, call_site) P(e, const void *, ptr) F(e, size_t, bytes_req) \
	F(e, size_t, bytes_alloc) F(e, unsigned long, gfp_flags) F(e, int, node) \
	F(e, bool, accounted)
EVENT_CLASS(kmem_alloc, KMEM_ALLOC)
#define KMEM_ALLOC_EVENT(event)                                                 \
	EVENT("kmem", event, kmem_alloc, "call_site=%pS ptr=%p bytes_req=%zu bytes_alloc=%zu gfp_flags=%s node=%d accounted=%s", (void *)REC->call_site, REC->ptr, REC->bytes_req, REC->bytes_alloc, (REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", { 0x1, "GFP_KERNEL" }, { 0x2, "GFP_ATOMIC" }, { 0x4, "__GFP_ZERO" }) : "none", REC->node, REC->accounted ? "true" : "false") \
	void trace_event_##event(unsigned long call_site, const void *ptr, size_t bytes_req, \
				 size_t bytes_alloc, unsigned long gfp_flags)   \
	{                                                                       \
		BEGIN(kmem_alloc);                                              \
		entry.call_site = call_site;                                    \
		entry.ptr = ptr;                                                \
		entry.bytes_req = bytes_req;                                    \
		entry.bytes_alloc = bytes_alloc;                                \
		entry.gfp_flags = gfp_flags;                                    \
		entry.node = -1;                                                \
		COMMIT(event);                                                  \
	}
KMEM_ALLOC_EVENT(kmalloc)
KMEM_ALLOC_EVENT(kmem_cache_alloc)

#define KFREE(e, F, A, P, S) F(e, unsigned long, call_site) P(e, const void *, ptr)
EVENT_CLASS(kfree, KFREE)
EVENT("kmem", kfree, kfree, "call_site=%pS ptr=%p", (void *)REC->call_site, REC->ptr)

void trace_event_kfree(unsigned long call_site, const void *ptr)
{
	BEGIN(kfree);
	entry.call_site = call_site;
	entry.ptr = ptr;
	COMMIT(kfree);
}

#define KMEM_CACHE_FREE(e, F, A, P, S)                                          \
	F(e, unsigned long, call_site) P(e, const void *, ptr) S(e, name)
EVENT_CLASS(kmem_cache_free, KMEM_CACHE_FREE)
EVENT("kmem", kmem_cache_free, kmem_cache_free, "call_site=%pS ptr=%p name=%s", (void *)REC->call_site, REC->ptr, __get_str(name))

void trace_event_kmem_cache_free(unsigned long call_site, const void *ptr, const char *name)
{
	BEGIN(kmem_cache_free);
	entry.call_site = call_site;
	entry.ptr = ptr;
	SET_STRING(name, name);
	COMMIT(kmem_cache_free);
}

/* In the kernel their texts begin with the address of struct page. */
#define MM_PAGE_ALLOC(e, F, A, P, S)                                            \
	F(e, unsigned long, pfn) F(e, unsigned int, order)                      \
	F(e, unsigned long, gfp_flags) F(e, int, migratetype)
EVENT_CLASS(mm_page_alloc, MM_PAGE_ALLOC)
EVENT("kmem", mm_page_alloc, mm_page_alloc, "pfn=0x%lx order=%d migratetype=%d gfp_flags=%s", REC->pfn != -1UL ? REC->pfn : 0, REC->order, REC->migratetype, (REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", { 0x1, "GFP_KERNEL" }, { 0x2, "GFP_ATOMIC" }, { 0x4, "__GFP_ZERO" }) : "none")

void trace_event_mm_page_alloc(unsigned long pfn, unsigned int order, unsigned long gfp_flags)
{
	BEGIN(mm_page_alloc);
	entry.pfn = pfn;
	entry.order = order;
	entry.gfp_flags = gfp_flags;
	COMMIT(mm_page_alloc);
}

#define MM_PAGE_FREE(e, F, A, P, S) F(e, unsigned long, pfn) F(e, unsigned int, order)
EVENT_CLASS(mm_page_free, MM_PAGE_FREE)
EVENT("kmem", mm_page_free, mm_page_free, "pfn=0x%lx order=%d", REC->pfn, REC->order)

void trace_event_mm_page_free(unsigned long pfn, unsigned int order)
{
	BEGIN(mm_page_free);
	entry.pfn = pfn;
	entry.order = order;
	COMMIT(mm_page_free);
}

/* ---- module ------------------------------------------------------------- */

#define MODULE_LOAD(e, F, A, P, S) F(e, unsigned int, taints) S(e, name)
EVENT_CLASS(module_load, MODULE_LOAD)
EVENT("module", module_load, module_load, "%s %s", __get_str(name), __print_flags(REC->taints, "", { 0x1, "P" }, { 0x1000, "O" }, { 0x2, "F" }, { 0x400, "C" }, { 0x2000, "E" }))

void trace_event_module_load(const char *name)
{
	BEGIN(module_load);
	SET_STRING(name, name);
	COMMIT(module_load);
}

#define MODULE_FREE(e, F, A, P, S) S(e, name)
EVENT_CLASS(module_free, MODULE_FREE)
EVENT("module", module_free, module_free, "%s", __get_str(name))

void trace_event_module_free(const char *name)
{
	BEGIN(module_free);
	SET_STRING(name, name);
	COMMIT(module_free);
}

#define MODULE_REFCNT(e, F, A, P, S) F(e, unsigned long, ip) F(e, int, refcnt) S(e, name)
EVENT_CLASS(module_refcnt, MODULE_REFCNT)
#define REFCNT_EVENT(event)                                                     \
	EVENT("module", event, module_refcnt, "%s call_site=%ps refcnt=%d", __get_str(name), (void *)REC->ip, REC->refcnt) \
	void trace_event_##event(const char *name, unsigned long ip, int refcnt) \
	{                                                                       \
		BEGIN(module_refcnt);                                           \
		entry.ip = ip;                                                  \
		entry.refcnt = refcnt;                                          \
		SET_STRING(name, name);                                         \
		COMMIT(event);                                                  \
	}
REFCNT_EVENT(module_get)
REFCNT_EVENT(module_put)

#define CALL(event) &event_##event,
const struct trace_event_call *const trace_events[] = { TRACE_EVENTS(CALL) 0 };
