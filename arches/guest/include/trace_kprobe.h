/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probe events: kprobes, return probes and event probes, with the arguments that they fetch.
 * Modelled on kernel/trace/trace_probe.h. The host parses definitions and writes all of this.
 *
 * core/abi.py describes these layouts to the host.
 */
#ifndef TRACE_KPROBE_H
#define TRACE_KPROBE_H

#include "trace_events.h"

/*
 * One step of fetching an argument. A value is loaded, perhaps dereferenced, and stored `dest`
 * bytes after the start of the event. After a read of memory that is not mapped, the rest of the
 * argument is stored as 0.
 */
struct fetch_insn {
	u32 op;    /* FETCH_OP_* */
	u32 size;  /* bytes that are stored */
	u32 dest;
	u32 shift; /* of a bit field: left << 8 | right */
	u64 value; /* see below */
};

#define FETCH_OP_END 0
#define FETCH_OP_ARG 1       /* begin an argument, or an element of an array of strings */
#define FETCH_OP_REG 2       /* value: number of the register in struct pt_regs */
#define FETCH_OP_STACK 3     /* value: number of the word on the stack */
#define FETCH_OP_STACKP 4
#define FETCH_OP_RETVAL 5
#define FETCH_OP_IMM 6       /* value */
#define FETCH_OP_COMM 7      /* address of the current task's name */
#define FETCH_OP_FIELD 8     /* value: offset in the attached event; `shift` 1: signed */
#define FETCH_OP_FIELD_AT 9  /* the same; the address of the field */
#define FETCH_OP_FIELD_DYN 10 /* the same; the address that its __data_loc gives */
#define FETCH_OP_DEREF 11    /* value: added to the address */
#define FETCH_OP_ST_RAW 12
#define FETCH_OP_ST_MEM 13   /* value: added to the address */
#define FETCH_OP_ST_STRING 14 /* value: added to the address; stores a __data_loc */
#define FETCH_OP_MOD_BF 15

/* Most bytes of an event's arguments, with their strings. */
#define PROBE_EVENT_SIZE 1024

struct trace_probe {
	u64 next;       /* the next struct trace_probe at the same address, or 0 */
	u64 code;       /* struct fetch_insn array */
	u64 ip;
	u32 type;       /* of its event in the ring buffer */
	u32 size;       /* bytes of the arguments, without strings */
	u32 enabled;
	u32 needs_regs;
	u32 maxactive;  /* of a return probe: calls in flight that it follows; else 0 */
	u32 active;     /* number of these calls now */
	u64 nhit, nmissed;
};

/* The probed addresses, ascending. */
struct kprobe {
	u64 ip;
	u64 probe; /* first struct trace_probe there */
	u64 slot;  /* where the instruction replaced by a breakpoint is executed, or 0 */
};

extern volatile unsigned long kprobe_table; /* struct kprobe array */
extern volatile u32 kprobe_count;

/* Memory that can be read: the guest has no page tables. */
struct probe_range {
	u64 start, end;
};

#define PROBE_RANGES 256
extern struct probe_range probe_ranges[PROBE_RANGES];
extern volatile u32 probe_range_count;

/* Numbers of registers in struct pt_regs; `pt_regs_link` is PT_REGS_NONE if calls push it. */
extern u32 pt_regs_pc, pt_regs_sp, pt_regs_link;
#define PT_REGS_NONE 0xffffffffu

/* Address of the code of return_to_handler. */
extern unsigned long kretprobe_trampoline;

void kretprobe_return(struct trace_probe *probe, unsigned long ret, unsigned long sp,
		      unsigned long retval, u32 irqs_off, int traced);

/* Write the event of an event probe that is attached to `event`. */
void eprobe_trace_func(struct trace_probe *probe, const struct trace_event_buffer *event);

#endif
