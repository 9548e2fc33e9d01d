/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One event of fixed size in one block: a reservation and its commit at once, for the
 * tracers of functions. The emulator reads its clock once for each block, no NMI divides a
 * block, and a block costs as much as four instructions.
 *
 *	unsigned long unusual = rb_unusual(RB_FUNCTION_OFF);
 *	...                                  branches, and slow paths if `unusual`
 *	rb_write(&rb, size, context);        from here on, no branch
 *	stores to rb.event
 *	if (!rb.keep)                        nothing was written: use ring_buffer_lock_reserve()
 *
 * Nobody reads the page in the middle of a block, so the event is committed before its fields
 * are stored: that saves the registers that would keep the page until then.
 *
 * If a new page, a first event or a long pause needs more work, the event goes to a page
 * that is never read, and struct ring_buffer_cpu keeps its values.
 */
#ifndef RING_BUFFER_H
#define RING_BUFFER_H

#include "tracer.h"

#define LONG_BITS (8 * (int)sizeof(long))

/*
 * Store to an event, which is aligned to 4 bytes. 64-bit MIPS has two instructions for
 * an unaligned double word, which the emulator executes byte by byte, twenty times as slow
 * as two stores of words.
 */
#ifdef __mips64
#define EVENT_STORE(field, value)                                               \
	do {                                                                    \
		u64 stored = (value);                                           \
		u32 *words = (u32 *)(void *)&(field);                           \
                                                                                \
		words[0] = stored >> 32;                                        \
		words[1] = stored;                                              \
	} while (0)
#else
#define EVENT_STORE(field, value) ((field) = (value))
#endif

/* Two words of an event, stored at once if the architecture can. */
struct event_pair {
	u64 words;
} __attribute__((packed, aligned(4)));

static inline __attribute__((always_inline)) u64 word_pair(u32 first, u32 second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return first | (u64)second << 32;
#else
	return (u64)first << 32 | second;
#endif
}

/* tracing_gen_ctx() for the usual context, in which rb_context() is 0: only irqs may be off. */
static inline __attribute__((always_inline)) u32 rb_plain_context(u16 type, u32 irqs_off)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return type | (irqs_off & TRACE_FLAG_IRQS_OFF) << 16;
#else
	return (u32)type << 16 | (irqs_off & TRACE_FLAG_IRQS_OFF) << 8;
#endif
}

/* The `irqs_off` from which `context` was made; kept there, it needs no register of its own. */
static inline __attribute__((always_inline)) u32 rb_irqs_off(u32 context)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return context >> 16 & TRACE_FLAG_IRQS_OFF;
#else
	return context >> 8 & TRACE_FLAG_IRQS_OFF;
#endif
}

/* Two words of the CPU-local page, with one access if a register holds both. */
static inline __attribute__((always_inline)) void rb_load(const volatile u32 *words, u32 *first,
							  u32 *second)
{
	if (sizeof(long) == 8) {
		u64 both = *(const volatile u64 *)words;
		u32 low = both, high = both >> 32;
		int little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

		*first = little ? low : high;
		*second = little ? high : low;
	} else {
		*first = words[0];
		*second = words[1];
	}
}

/* Add a reason for more work, before the next one is loaded: that saves registers. */
#define RB_ALSO(unusual, reason)                                                \
	do {                                                                    \
		(unusual) |= (reason);                                          \
		__asm__ volatile("" : "+r"(unusual));                           \
	} while (0)

/* Not 0 if the context of an event needs tracing_gen_ctx(). */
static inline __attribute__((always_inline)) unsigned long rb_context(unsigned long unusual)
{
	volatile struct cpu_local *cpu = this_cpu;

	/* Also need_resched and migrate_disable, which follow it. */
	if (sizeof(long) == 8) {
		RB_ALSO(unusual, *(volatile u64 *)&cpu->preempt_count);
		return unusual;
	}
	RB_ALSO(unusual, cpu->preempt_count);
	return unusual | *(volatile u32 *)&cpu->need_resched;
}

/*
 * 0 if this CPU records, with the usual clock, and no other event is unfinished. An NMI that
 * comes after this check does not change that. `off` may have RB_FUNCTION_OFF.
 */
static inline __attribute__((always_inline)) unsigned long rb_unusual(u32 off)
{
	volatile struct cpu_local *cpu = this_cpu;
	unsigned long unusual = 0;
	u32 nr_pages, flags;

	rb_load(&cpu->buffer.nr_pages, &nr_pages, &flags);
	RB_ALSO(unusual, (flags ^ RB_RECORD_ON) & (RB_RECORD_ON | RB_CLOCK_COUNTER | off));
	RB_ALSO(unusual, cpu->buffer.tail_page >= nr_pages);
	RB_ALSO(unusual, cpu->trace_recursion);
	return unusual;
}

struct rb_event {
	u32 *event;
	unsigned long keep; /* -1, or 0: nothing is written, the buffer stays as it is */
};

extern u32 unused_event[16];

/* Commit an event of `size` with its header, and store all but its fields. */
static inline __attribute__((always_inline)) void rb_write(struct rb_event *rb, u32 size,
							   u32 context)
{
	volatile struct ring_buffer_cpu *buffer = &this_cpu->buffer;
	unsigned long page = (unsigned long)buffer->pages +
			     (unsigned long)buffer->tail_page * RB_PAGE_SIZE;
	volatile u64 *commit_word = (volatile u64 *)(page + 8);
	unsigned long event, commit, keep;
	u64 word, stamp, now, delta;
	long rare;

	word = *commit_word;
	commit = word;
	now = this_clock->ticks;
	stamp = buffer->write_stamp;
	delta = now - stamp;
	/* A sign bit that is set means the rare case. */
	rare = (long)(commit - 1) | (long)(RING_BUFFER_DATA - size - commit);
	if (sizeof(long) == 8) {
		rare |= (long)delta | (long)((1ul << RINGBUF_DELTA_BITS) - 1 - (unsigned long)delta);
	} else {
		u32 high = (u32)(delta >> 32) | (u32)(word >> 32) |
			   (u32)delta >> RINGBUF_DELTA_BITS;

		rare |= (long)-high | (long)high;
	}
	keep = ~(rare >> (LONG_BITS - 1));
	OPTIMIZER_HIDE_VAR(keep);
	*commit_word = commit + (keep & size);
	event = (unsigned long)unused_event;
	event ^= ((page + RB_PAGE_HEADER + commit) ^ event) & keep;
	buffer->write_stamp = stamp + ((unsigned long)delta & keep);
	buffer->entries -= (long)keep;
	rb->event = (u32 *)event;
	rb->keep = keep;
	EVENT_STORE(((struct event_pair *)rb->event)->words,
		    word_pair(RB_EVENT_HEADER((size - 4) / 4, delta), context));
	rb->event[2] = this_cpu->pid;
	barrier();
}

#endif
