// SPDX-License-Identifier: GPL-2.0-or-later
/* The switches of the trace events. The host enables them; see events.h. */
#include "events.h"

#define DEFINE_EVENT(name) struct tracepoint __event_##name

DEFINE_EVENT(sched_waking);
DEFINE_EVENT(sched_wakeup);
DEFINE_EVENT(sched_wakeup_new);
DEFINE_EVENT(sched_switch);
DEFINE_EVENT(sched_migrate_task);
DEFINE_EVENT(sched_process_fork);
DEFINE_EVENT(sched_process_exec);
DEFINE_EVENT(sched_process_exit);
DEFINE_EVENT(sched_process_free);
DEFINE_EVENT(signal_generate);
DEFINE_EVENT(irq_handler_entry);
DEFINE_EVENT(irq_handler_exit);
DEFINE_EVENT(softirq_entry);
DEFINE_EVENT(softirq_exit);
DEFINE_EVENT(softirq_raise);
DEFINE_EVENT(timer_init);
DEFINE_EVENT(timer_start);
DEFINE_EVENT(timer_cancel);
DEFINE_EVENT(timer_expire_entry);
DEFINE_EVENT(timer_expire_exit);
DEFINE_EVENT(sys_enter);
DEFINE_EVENT(sys_exit);
DEFINE_EVENT(kmalloc);
DEFINE_EVENT(kfree);
DEFINE_EVENT(kmem_cache_alloc);
DEFINE_EVENT(kmem_cache_free);
DEFINE_EVENT(mm_page_alloc);
DEFINE_EVENT(mm_page_free);
DEFINE_EVENT(module_load);
DEFINE_EVENT(module_free);
DEFINE_EVENT(module_get);
DEFINE_EVENT(module_put);
