// SPDX-License-Identifier: GPL-2.0-or-later
/* The page daemon: keeps some memory free. Modelled on mm/vmscan.c. */
#include "irq.h"
#include "mm.h"
#include "sched.h"

static unsigned long shrink_slab(void)
{
	return kmem_cache_shrink_all();
}

static int pgdat_balanced(void)
{
	return nr_free_pages() >= totalram_pages() / 8;
}

static unsigned long balance_pgdat(void)
{
	return pgdat_balanced() ? 0 : shrink_slab();
}

static int kswapd(void *unused)
{
	for (;;) {
		schedule_timeout_interruptible(100);
		balance_pgdat();
	}
	return 0;
}

void kswapd_init(void)
{
	kthread_run(kswapd, NULL, "kswapd0");
}
