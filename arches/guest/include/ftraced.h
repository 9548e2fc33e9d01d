/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the machine's ftrace and the guest's ftraced agree on, where call sites
 * are found by running into them. In miniature of linux/ftrace.h of 2008.
 *
 * The machine finds by symbol, besides the variables below: mcount_call, the call
 * inside of mcount; ftrace_stub and ftrace_record_ip, what it calls in turn.
 */
#ifndef FTRACED_H
#define FTRACED_H

#include "kernel.h"

#define FTRACE_FL_FREE (1u << 0)      /* in ftrace_free_records */
#define FTRACE_FL_CONVERTED (1u << 1) /* the site is the machine's business now */

/* A slot: one call site that was run into. */
struct dyn_ftrace {
	struct dyn_ftrace *next; /* in its list of the hash, or in ftrace_free_records */
	unsigned long ip;
	unsigned long flags; /* FTRACE_FL_* */
};

/* Slots come by the page; the first `index` of a page are in use, or free again. */
struct ftrace_page {
	struct ftrace_page *next;
	unsigned long index;
	struct dyn_ftrace records[];
};

#define FTRACE_HASHBITS 10
#define FTRACE_HASHSIZE (1u << FTRACE_HASHBITS)

extern struct dyn_ftrace *ftrace_hash[FTRACE_HASHSIZE]; /* found since the last conversion */
extern struct ftrace_page *ftrace_pages_start;
extern struct dyn_ftrace *ftrace_free_records;
extern u32 ftrace_shutdown_lock; /* 1: a CPU is changing any of these */
extern volatile int ftraced_trigger; /* something was found since the last conversion */
extern volatile int ftraced_suspend; /* set by the machine while functions are traced */
extern volatile int ftraced_stop;    /* set by the machine: the user wants no conversions */
extern volatile unsigned long ftraced_iteration_counter; /* how often ftraced has woken */
extern volatile unsigned long ftrace_skipped;            /* calls that found no slot */

#endif
