// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds call sites when they run. Modelled on kernel/trace/ftrace.c as it was in
 * May 2008, when no compiler made a table of the call sites.
 *
 * No function in this file has a call site: mcount calls ftrace_record_ip(),
 * which must not call mcount again.
 */
#include "ftraced.h"
#include "irq.h"
#include "mm.h"
#include "sched.h"
#include "stop_machine.h"

#define ENTRIES_PER_PAGE ((PAGE_SIZE - sizeof(struct ftrace_page)) / sizeof(struct dyn_ftrace))

/*
 * Pages of slots at boot. This kernel is so small that one page shows both cases:
 * most sites get a slot at once, and the others wait until ftraced adds the next
 * page. The machine may set ftraced_batch before boot: then there are slots for
 * NR_TO_INIT sites, more than the kernel and its modules have. The kernel of 2008
 * had 10000.
 */
#define NR_TO_INIT 1000
int ftraced_batch = 0;

/* The prime of the 2008 kernel's hash_long(). */
#define GOLDEN_RATIO_PRIME 0x9e37fffffffc0001ul

struct dyn_ftrace *ftrace_hash[FTRACE_HASHSIZE];
struct ftrace_page *ftrace_pages_start;
static struct ftrace_page *ftrace_pages; /* the page being filled */
struct dyn_ftrace *ftrace_free_records;
u32 ftrace_shutdown_lock;
volatile int ftraced_trigger;
volatile int ftraced_suspend;
volatile int ftraced_stop;
volatile unsigned long ftraced_iteration_counter;
volatile unsigned long ftrace_skipped;

/* Interrupts are off: a handler would call functions that need the lock. */
static void shutdown_lock(void)
{
	while (__atomic_exchange_n(&ftrace_shutdown_lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void shutdown_unlock(void)
{
	__atomic_store_n(&ftrace_shutdown_lock, 0, __ATOMIC_RELEASE);
}

static int ftrace_ip_in_hash(unsigned long ip, unsigned long key)
{
	for (struct dyn_ftrace *p = READ_ONCE(ftrace_hash[key]); p; p = p->next)
		if (p->ip == ip)
			return 1;
	return 0;
}

static struct dyn_ftrace *ftrace_alloc_dyn_node(void)
{
	struct dyn_ftrace *rec = ftrace_free_records;

	if (rec) {
		ftrace_free_records = rec->next;
		return rec;
	}
	if (ftrace_pages->index == ENTRIES_PER_PAGE) {
		if (!ftrace_pages->next)
			return NULL;
		ftrace_pages = ftrace_pages->next;
	}
	return &ftrace_pages->records[ftrace_pages->index++];
}

/* Called by mcount for each call site that is still as compiled. */
void ftrace_record_ip(unsigned long ip)
{
	unsigned long flags = local_irq_save();
	unsigned long key = ip * GOLDEN_RATIO_PRIME >> (64 - FTRACE_HASHBITS);
	struct dyn_ftrace *rec;

	if (!ftrace_ip_in_hash(ip, key)) {
		shutdown_lock();
		/* Another CPU may have added it while we waited for the lock. */
		if (!ftrace_ip_in_hash(ip, key)) {
			rec = ftrace_alloc_dyn_node();
			if (rec) {
				rec->ip = ip;
				rec->flags = 0;
				rec->next = ftrace_hash[key];
				WRITE_ONCE(ftrace_hash[key], rec);
				ftraced_trigger = 1;
			} else {
				ftrace_skipped++;
			}
		}
		shutdown_unlock();
	}
	local_irq_restore(flags);
}

/*
 * With all CPUs stopped, turn all sites found so far into nops. The machine marks the slots and
 * empties the hash; these sites do not call mcount again. No stopped CPU holds the lock.
 */
static int __ftrace_update_code(void *data)
{
	long converted;

	shutdown_lock();
	converted = hypercall(HC_FTRACE_UPDATE, 0, 0, 0, 0);
	shutdown_unlock();
	if (converted < 0)
		ftraced_stop = 1; /* the report is in dmesg */
	return 0;
}

static void ftrace_update_code(void)
{
	stop_machine(__ftrace_update_code, NULL);
}

/* Add a page of slots if the last one is full. */
static void ftrace_shutdown_replenish(void)
{
	if (ftrace_pages->index == ENTRIES_PER_PAGE && !ftrace_pages->next)
		ftrace_pages->next = (struct ftrace_page *)get_zeroed_page(GFP_KERNEL);
}

static int ftraced(void *unused)
{
	for (;;) {
		schedule_timeout_interruptible(HZ);
		if (ftraced_trigger && !ftraced_suspend && !ftraced_stop)
			ftrace_update_code();
		ftraced_iteration_counter++;
		ftrace_shutdown_replenish();
	}
	return 0;
}

/* Sites are recorded from here on; before, mcount returned at once. */
void ftraced_init(void)
{
	struct ftrace_page **last = &ftrace_pages_start;
	unsigned long pages = 1;

	if (ftraced_batch)
		pages = (NR_TO_INIT + ENTRIES_PER_PAGE - 1) / ENTRIES_PER_PAGE;
	for (unsigned long i = 0; i < pages; i++) {
		*last = (struct ftrace_page *)get_zeroed_page(GFP_KERNEL);
		if (!*last)
			panic("no page for call sites");
		last = &(*last)->next;
	}
	ftrace_pages = ftrace_pages_start;
	if (machine_call(HC_FTRACE_INIT, 0, 0, 0, 0))
		return;
	printk("ftrace: %lu slots for call sites", pages * ENTRIES_PER_PAGE);
	kthread_run(ftraced, NULL, "ftraced");
}
