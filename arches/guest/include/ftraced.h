/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between the machine's ftrace and the guest's ftraced, for kernels that
 * find call sites when they run. Modelled on linux/ftrace.h of 2008.
 *
 * Besides the variables below, the machine looks up these symbols: mcount_call, the
 * call inside mcount, and its two targets, ftrace_stub and ftrace_record_ip.
 */
#ifndef FTRACED_H
#define FTRACED_H

#include "kernel.h"

#define FTRACE_FL_FREE (1u << 0)      /* on the list ftrace_free_records */
#define FTRACE_FL_CONVERTED (1u << 1) /* the machine has taken over the site */

/* A slot: one call site that has run. */
struct dyn_ftrace {
	struct dyn_ftrace *next; /* next in the hash bucket, or in ftrace_free_records */
	unsigned long ip;
	unsigned long flags; /* FTRACE_FL_* */
};

/* Slots are allocated in pages; the first `index` of a page are in use or freed. */
struct ftrace_page {
	struct ftrace_page *next;
	unsigned long index;
	struct dyn_ftrace records[];
};

#define FTRACE_HASHBITS 10
#define FTRACE_HASHSIZE (1u << FTRACE_HASHBITS)

extern struct dyn_ftrace *ftrace_hash[FTRACE_HASHSIZE]; /* sites found since the last conversion */
extern struct ftrace_page *ftrace_pages_start;
extern struct dyn_ftrace *ftrace_free_records;
extern u32 ftrace_shutdown_lock; /* 1: a CPU is changing any of these */
extern volatile int ftraced_trigger; /* 1: sites were found since the last conversion */
extern volatile int ftraced_suspend; /* set by the machine while functions are traced */
extern volatile int ftraced_stop;    /* set by the machine: the user turned conversions off */
extern int ftraced_batch;            /* set by the machine before boot: many slots */
extern volatile unsigned long ftraced_iteration_counter; /* number of wakeups of ftraced */
extern volatile unsigned long ftrace_skipped;            /* calls that found no slot */

#endif
