/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace events: what the host reads about them in the tracer, and what it writes there.
 *
 * `trace_events` describes each event to the host, as include/trace/events/ does in the kernel:
 * where its fields are, and how they are printed. The kernel's tracepoint __event_NAME calls
 * trace_event_NAME() while the event is on. That function fills the event on the stack. If the
 * event's filter and triggers allow it, the event is then copied to the ring buffer.
 *
 * core/abi.py describes these layouts to the host.
 */
#ifndef TRACE_EVENTS_H
#define TRACE_EVENTS_H

#include "tracer.h"

/* Types of events in the ring buffer; system calls, fprobes and probe events have those after them. */
#define FIRST_TRACE_EVENT_ID 0x20
#define TRACE_EVENT_FILES 0xc00 /* types that can have a filter and triggers: all below it */

struct trace_event_field {
	const char *type; /* in C; 0 ends the list */
	const char *name; /* with the length of an array */
	u32 offset, size;
	u32 is_signed;
	u32 unused;
};

struct trace_event_call {
	const char *system, *name;
	const char *print_fmt; /* C code */
	const struct trace_event_field *fields; /* after those of struct trace_entry */
};

/* In order of their types; ends with a null pointer. */
extern const struct trace_event_call *const trace_events[];

/*
 * The switches of an event, indexed by its type and written by the host. It makes a list
 * first, then its address here, and no CPU is in the tracer meanwhile.
 */
struct trace_event_file {
	u32 enabled;       /* the event is made, for its triggers if not for the buffer */
	u32 soft_disabled; /* it is not written; event triggers change this */
	u64 filter;        /* struct filter_pred array; 0: all events pass */
	u64 triggers;      /* first struct event_trigger, or 0 */
};

extern struct trace_event_file trace_event_files[TRACE_EVENT_FILES];

/* One test of a filter; evaluation starts at the first. */
struct filter_pred {
	u32 kind;   /* FILTER_KIND_* */
	u32 op;     /* FILTER_OP_* */
	u32 offset; /* of the field in the event */
	u32 size;
	u32 is_signed;
	u32 on_true, on_false; /* number of the next test, or FILTER_ACCEPT or FILTER_REJECT */
	u32 invert;  /* exchange the two */
	u64 value;   /* for numbers */
	u64 pattern; /* for strings: address of a string */
};

#define FILTER_ACCEPT 0xffffffffu
#define FILTER_REJECT 0xfffffffeu

#define FILTER_KIND_NUMBER 0
#define FILTER_KIND_STRING 1     /* characters in the event */
#define FILTER_KIND_DYN_STRING 2 /* __data_loc */
#define FILTER_KIND_COMM 3       /* name of the current task */
#define FILTER_KIND_CPU 4

#define FILTER_OP_EQ 0
#define FILTER_OP_NE 1
#define FILTER_OP_LT 2
#define FILTER_OP_LE 3
#define FILTER_OP_GT 4
#define FILTER_OP_GE 5
#define FILTER_OP_BAND 6
#define FILTER_OP_GLOB 7

/* Functions that read an event of `size` or `total` bytes. */
int filter_match_preds(unsigned long filter, const struct trace_entry *entry, u32 size);
const char *event_string(const struct trace_entry *entry, u32 total, u32 kind, u32 offset,
			 u32 size, u32 *length);

u64 event_number(const struct trace_entry *entry, u32 total, u32 offset, u32 size, u32 is_signed);

/* The command of an event, executed when it happens. */
struct event_trigger {
	u64 next;    /* struct event_trigger, or 0 */
	u32 command; /* FUNC_PROBE_* or TRIGGER_* */
	u32 counted; /* `count` says how often it is still executed */
	s64 count;
	u64 filter;  /* struct filter_pred array; 0: always */
	u64 data;    /* struct hist_trigger for TRIGGER_HIST, struct trace_probe for TRIGGER_EPROBE,
		      * struct trace_event_file for others */
};

#define TRIGGER_ENABLE_EVENT 16
#define TRIGGER_DISABLE_EVENT 17
#define TRIGGER_HIST 18
#define TRIGGER_ENABLE_HIST 19
#define TRIGGER_DISABLE_HIST 20
#define TRIGGER_EPROBE 21 /* write the event of an event probe */

/* Execute those due before or after the event is written; return whether it gets a stack trace. */
int event_triggers_call(struct trace_event_file *file, const struct trace_entry *entry, u32 size,
			unsigned long ip, u32 irqs_off, int after);

/* A histogram. */
struct hist_field {
	u32 kind;   /* FILTER_KIND_*, or HIST_KIND_* */
	u32 offset; /* in the event */
	u32 size;
	u32 is_signed;
	u32 log2;   /* 1: count powers of two */
	u32 key_offset; /* in the key, a multiple of 8 */
	u32 key_size;
	u32 unused;
	u64 buckets; /* if not 0: count ranges of this size */
};

#define HIST_KIND_HITCOUNT 16
#define HIST_KIND_TIMESTAMP 17
#define HIST_KIND_STACK 18

#define HIST_KEYS_MAX 3
#define HIST_VALS_MAX 16
#define HIST_KEY_SIZE 256
#define HIST_STACK 16

struct hist_trigger {
	u32 nr_keys, nr_vals;
	u32 key_size;
	u32 bits;     /* the map has 1 << bits slots */
	u32 max;      /* of entries; less than its slots */
	u32 entries;
	u32 paused;
	u32 lock;
	u64 hits, drops;
	u64 map; /* slots: u64 used, key, u64 values */
	struct hist_field keys[HIST_KEYS_MAX];
	struct hist_field vals[HIST_VALS_MAX];
};

void hist_trigger_update(struct hist_trigger *hist, const struct trace_entry *entry, u32 size,
			 unsigned long ip);

/* The tasks whose events are written, as struct ftrace_pids; 0: all. */
extern volatile unsigned long trace_event_pid_list;

/* What a function that makes an event keeps. */
struct trace_event_context {
	u32 irqs_off, recursion;
	s32 other_pid; /* a second task that the event is about, or -1 */
};

static inline __attribute__((always_inline)) int
trace_event_begin(struct trace_event_context *context)
{
	context->irqs_off = this_cpu->irqs_disabled;
	context->other_pid = -1;
	this_cpu->irqs_disabled = 1;
	if (trace_recursion_start(&context->recursion))
		return 1;
	this_cpu->irqs_disabled = context->irqs_off;
	return 0;
}

/* Write the event of `size` bytes, if it shall be; `ip` is in the function that it is about. */
void trace_event_commit(const struct trace_event_context *context, u32 type,
			struct trace_entry *entry, u32 size, unsigned long ip);

/* The same without its end: the section goes on. */
void trace_event_write(const struct trace_event_context *context, u32 type,
		       struct trace_entry *entry, u32 size, unsigned long ip);

/* Address in the function that has the tracepoint. */
#define EVENT_IP ((unsigned long)__builtin_return_address(0))

#endif
