/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace events: the tables that the host reads in the tracer, and those that it writes there.
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
#define FIRST_SYNTH_EVENT_ID 0xc0

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
	u32 counted; /* `count` is the number of executions left */
	s64 count;
	u64 filter;  /* struct filter_pred array; 0: always */
	u64 data;    /* struct hist_trigger for TRIGGER_HIST, struct trace_probe for TRIGGER_EPROBE,
		      * struct trace_event_file for others */
	u32 paused;  /* TRIGGER_HIST: it is not executed */
	u32 unused;
};

#define TRIGGER_ENABLE_EVENT 16
#define TRIGGER_DISABLE_EVENT 17
#define TRIGGER_HIST 18
#define TRIGGER_ENABLE_HIST 19
#define TRIGGER_DISABLE_HIST 20
#define TRIGGER_EPROBE 21 /* write the event of an event probe */

/* An event on its way into the buffer of a trace array. */
struct trace_event_buffer {
	struct trace_array *tr;
	const struct trace_entry *entry;
	u32 size;
	u32 irqs_off;
	unsigned long ip; /* in the function that the event is about */
};

/*
 * Execute the triggers of `file` that are due before or after the event is written; return
 * whether it gets a stack trace.
 */
int event_triggers_call(const struct trace_event_buffer *event,
			const struct trace_event_file *file, int after);

/*
 * A histogram: a map from keys to elements, which the host allocates and reads.
 *
 * An element is its key, its sums, a mask of the variables that are set, the variables, the name
 * of the task that made it, and room for strings. A variable that is a string has its address.
 */

/* One step of an expression; operands are on a stack. */
struct hist_op {
	u32 kind;   /* FILTER_KIND_*, or HIST_KIND_* */
	u32 offset; /* in the event; HIST_KIND_VAR_REF: number of the reference */
	u32 size;
	u32 is_signed;
	u64 value;  /* a constant operand */
};

#define HIST_KIND_HITCOUNT 16
#define HIST_KIND_TIMESTAMP 17 /* `value`, if not 0, is the unit in ns */
#define HIST_KIND_STACK 18
#define HIST_KIND_CONST 19
#define HIST_KIND_VAR_REF 20
#define HIST_KIND_EXECNAME 21  /* of the task that made the element */
#define HIST_KIND_LOG2 22      /* operators from here on */
#define HIST_KIND_BUCKET 23    /* ranges of `value` */
#define HIST_KIND_UMINUS 24
#define HIST_KIND_PLUS 25      /* with two operands from here on */
#define HIST_KIND_MINUS 26
#define HIST_KIND_MULT 27
#define HIST_KIND_DIV 28
#define HIST_KIND_DIV_SHIFT 29 /* by a constant, whose inverse is `value` >> HIST_DIV_SHIFT */

#define HIST_DIV_SHIFT 20

/* A key, a value or a variable. */
struct hist_field {
	u32 first, nr_ops; /* of the histogram's */
	u32 to;     /* keys: offset in the key; others: number of the sum or variable */
	u32 size;   /* keys: bytes there, a multiple of 8; variables: bytes of a string, or 0 */
	u32 string; /* variables: offset of that string in the element */
	u32 is_string;
};

/* A variable of this or another histogram. */
struct hist_var_ref {
	u64 hist; /* struct hist_trigger */
	u32 var;
	u32 once; /* reading it unsets it */
};

#define HIST_HANDLER_ONMATCH 1
#define HIST_HANDLER_ONMAX 2
#define HIST_HANDLER_ONCHANGE 3

#define HIST_ACTION_SAVE 1
#define HIST_ACTION_TRACE 2
#define HIST_ACTION_SNAPSHOT 3

#define HIST_KEYS_MAX 3
#define HIST_VALS_MAX 3
#define HIST_VARS_MAX 16 /* references of a histogram */
#define HIST_KEY_SIZE 384
#define HIST_STACK 16
#define HIST_STRING 256
#define HIST_PARAMS_MAX 64

struct hist_action {
	u32 handler;
	u32 action;
	u32 ref;   /* onmax and onchange: the reference that is tracked */
	u32 var;   /* the variable that keeps its value */
	u64 event; /* HIST_ACTION_TRACE: struct synth_event */
	u64 value; /* HIST_ACTION_SNAPSHOT: of the last snapshot */
	u32 taken; /* there is one */
	u32 nr_params;
	char comm[TASK_COMM_LEN];
	u64 key[HIST_KEY_SIZE / 8];
	u32 params[HIST_PARAMS_MAX]; /* HIST_ACTION_TRACE: references */
};

struct hist_trigger {
	u32 nr_keys, nr_vals; /* the first value is the number of hits */
	u32 nr_vars, nr_save; /* variables set by each hit, and those of the action save */
	u32 nr_refs, nr_actions;
	u32 key_size, elt_size;
	u32 vars; /* offset of the mask in an element */
	u32 comm; /* offset of the name of a task, or 0 */
	u32 bits; /* the map has 1 << bits slots */
	u32 max;  /* of elements; less than its slots */
	u32 entries;
	u32 unused;
	u64 hits, drops;
	u64 map;     /* u32 array: number of an element, from 1, or 0 */
	u64 elts;
	u64 ops;     /* struct hist_op array */
	u64 fields;  /* struct hist_field array: keys, values, variables, those of save */
	u64 refs;    /* struct hist_var_ref array */
	u64 actions; /* struct hist_action array */
};

void hist_trigger_update(struct hist_trigger *hist, const struct trace_event_buffer *event);

/* An event that is made of the variables of histograms. Each field begins at a u64. */
struct synth_field {
	u32 kind; /* FILTER_KIND_NUMBER, FILTER_KIND_STRING or FILTER_KIND_DYN_STRING */
	u32 size;
};

struct synth_event {
	u32 type;
	u32 nr_fields;
	u32 nr_u64; /* without the characters of FILTER_KIND_DYN_STRING */
	u32 unused;
	struct synth_field fields[HIST_PARAMS_MAX];
};

void synth_event_trace(const struct synth_event *event, const u64 *values, const u32 *refs,
		       unsigned long ip, u32 irqs_off);
u64 *hist_scratch_get(u32 words);
void hist_scratch_put(u32 words);

/* State of a function that makes an event. */
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

/* Write the event of `size` bytes to each trace array that wants it, and end the section that
 * trace_event_begin() began; `ip` is in the function that the event is about. */
void trace_event_commit(const struct trace_event_context *context, u32 type,
			struct trace_entry *entry, u32 size, unsigned long ip);

/* The same, without ending the section. */
void trace_event_write(const struct trace_event_context *context, u32 type,
		       struct trace_entry *entry, u32 size, unsigned long ip);

/* Address in the function that has the tracepoint. */
#define EVENT_IP ((unsigned long)__builtin_return_address(0))

#endif
