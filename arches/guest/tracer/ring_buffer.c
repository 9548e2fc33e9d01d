// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The writer of a ring buffer of this CPU: `this_cpu->buffer`, or one of a struct
 * trace_array. Modelled on kernel/trace/ring_buffer.c, with its page format and a
 * simpler page ring: sub-buffers are contiguous, and the reader is the host and never a
 * CPU that writes.
 *
 * Called with interrupts off on this CPU and a bit of trace_recursion set, so only an NMI
 * comes between a reserve and its commit. Its events follow the reserved one, and the
 * outermost commit makes all of them visible. A reserve that was interrupted by such
 * events starts again, with a new time, so time stamps never decrease. The kernel's
 * atomic instructions are straight-line code here, which no NMI divides (ON_ONE_PAGE).
 *
 * The host fills the descriptor, which is not trusted: if a page number or length is out
 * of range, nothing is written.
 */
#include "tracer.h"


struct buffer_data_page {
	u64 time_stamp;
	u64 commit;
	unsigned char data[RING_BUFFER_DATA];
};

typedef volatile struct ring_buffer_cpu ring_buffer;

static inline __attribute__((always_inline)) struct buffer_data_page *
buffer_page(ring_buffer *buffer, u32 n)
{
	return (struct buffer_data_page *)(unsigned long)(buffer->pages + (u64)n * RB_PAGE_SIZE);
}

/* The half of the commit word that counts bytes; for the other half, see RB_ENDED. */
static inline __attribute__((always_inline)) volatile u32 *
commit_bytes(struct buffer_data_page *page)
{
	return (volatile u32 *)&page->commit + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Size of the event at `p` with its header; *counted: whether a reader sees it. */
static u32 event_length(const u32 *p, u32 *counted)
{
	u32 type = RB_EVENT_TYPE_LEN(p[0]);

	*counted = type <= RINGBUF_TYPE_DATA_MAX;
	if (type - 1 < RINGBUF_TYPE_DATA_MAX)
		return 4 + 4 * type;
	if (type == 0 || type == RINGBUF_TYPE_PADDING)
		return 4 + p[1];
	return 8;
}

static u64 rb_now(ring_buffer *buffer)
{
	u32 flags = buffer->flags;

	return flags & RB_CLOCK_COUNTER ? trace_clock_of(flags) : this_clock->ticks;
}

u64 ftrace_now(void)
{
	return rb_now(&this_cpu->buffer);
}

/* A counter that NMIs increment too. */
static __attribute__((noinline)) ON_ONE_PAGE(64) void rb_count(volatile u64 *counter)
{
	++*counter;
}

/* Written instead of a buffer whose state is not the expected one. */
static struct ring_buffer_cpu unused_buffer;
static struct buffer_data_page unused_page;

/* All ones if `stamp` is still the time of the last event, else 0. */
static inline __attribute__((always_inline)) unsigned long rb_unchanged(ring_buffer *buffer,
									u64 stamp)
{
	u64 differs = buffer->write_stamp ^ stamp;
	u32 any = (u32)differs | (u32)(differs >> 32);
	unsigned long same = (unsigned long)((any | -any) >> 31) - 1;

	OPTIMIZER_HIDE_VAR(same);
	return same;
}

/* `yes` or `no` without a branch. */
#define SELECT(mask, yes, no)                                                   \
	((__typeof__(no))((unsigned long)(no) ^                                 \
			  (((unsigned long)(yes) ^ (unsigned long)(no)) & (mask))))

/* A reservation, made at once if no event was written since `stamp`. */
struct rb_reservation {
	u64 stamp, now;
	u64 time_stamp, commit; /* of write_page */
	u32 write, write_page, commit_end;
	u32 head_page, read;
	u32 ended_page;         /* page whose last event was written, or write_page */
	u64 ended;              /* commit word of ended_page */
	u32 lost;               /* events that the head page loses */
};

static __attribute__((noinline)) ON_ONE_PAGE(1024) unsigned long
rb_reserve(ring_buffer *mine, const struct rb_reservation *next)
{
	ring_buffer *buffer = &unused_buffer;
	volatile struct buffer_data_page *page = &unused_page, *ended = page;
	unsigned long same = rb_unchanged(mine, next->stamp);

	buffer = SELECT(same, mine, buffer);
	ended = SELECT(same, buffer_page(mine, next->ended_page), ended);
	page = SELECT(same, buffer_page(mine, next->write_page), page);
	ended->commit = next->ended;
	page->time_stamp = next->time_stamp;
	page->commit = next->commit;
	buffer->write = next->write;
	buffer->write_page = next->write_page;
	buffer->commit_end = next->commit_end;
	buffer->head_page = next->head_page;
	buffer->read = next->read;
	buffer->write_stamp = next->now;
	buffer->entries++;
	buffer->overrun += next->lost;
	return same;
}

/*
 * The commit word of a page whose last event was written: above the bytes, the lower half of
 * `entries` at that time, or 0 if the page ended inside an NMI. Readers mask this half.
 */
#define RB_ENDED(commit, entries) ((u32)(commit) | (u64)(u32)(entries) << 32)

/*
 * Count the events that are lost with the oldest page: its unread ones. All events before it
 * are lost or read. If an NMI overwrites the page meanwhile, the numbers are wrong, but not
 * used.
 */
static void drop_head_page(ring_buffer *buffer, struct rb_reservation *next)
{
	const struct buffer_data_page *page = buffer_page(buffer, next->head_page);
	u32 at = next->read, end = page->commit, ended = page->commit >> 32;

	if (end > RING_BUFFER_DATA)
		end = RING_BUFFER_DATA;
	if (ended && at <= end) {
		next->lost = ended - (u32)(buffer->overrun + buffer->read_events);
		at = end;
	}
	while (at + 8 <= end) {
		u32 counted, length = event_length((u32 *)(page->data + at), &counted);

		if (length < 4 || length > end - at || length % 4)
			break;
		next->lost += counted;
		at += length;
	}
	next->head_page = next->head_page + 1 < buffer->nr_pages ? next->head_page + 1 : 0;
	next->read = 0;
}

/*
 * Reserve `size` bytes on the page after write_page. Pages after tail_page are invisible,
 * so the commit word of this one can be set now. Return 0 if there is no such page, after
 * counting the event as lost.
 */
static int rb_move_tail(ring_buffer *buffer, struct rb_reservation *next, u32 size)
{
	if (++next->write_page >= buffer->nr_pages)
		next->write_page = 0;
	if (next->write_page == buffer->tail_page) {
		rb_count(&buffer->commit_overrun);
		return 0;
	}
	if (next->write_page == next->head_page) {
		if (!(buffer->flags & RB_OVERWRITE)) {
			rb_count(&buffer->dropped);
			return 0;
		}
		drop_head_page(buffer, next);
	}
	if (!buffer->write)
		next->ended = RB_ENDED(next->commit, buffer->entries);
	next->time_stamp = next->now;
	next->commit = next->write = size;
	return 1;
}

/* End a reservation. The outermost one makes all events visible. */
static ON_ONE_PAGE(512) void rb_end_commit(ring_buffer *buffer)
{
	for (;;) {
		if (likely(buffer->committing == 1 && buffer->write)) {
			/* This is one block: an NMI comes before or after all of it. */
			*commit_bytes(buffer_page(buffer, buffer->tail_page)) = buffer->commit_end;
			buffer->tail_page = buffer->write_page;
			buffer->write = 0;
		}
		buffer->committing--;
		/* An NMI came in between, and left its events to this CPU's outermost commit. */
		if (likely(!buffer->write || buffer->committing))
			break;
		buffer->committing++;
	}
}

/* The general case: a new page, the first event on a page, a long pause or a nested event. */
static __attribute__((noinline)) u32 *rb_reserve_slow(ring_buffer *buffer, u32 size)
{
	struct rb_reservation next;
	struct buffer_data_page *page;
	u32 at, open, total, *event;
	u64 delta;

	do {
		next.stamp = buffer->write_stamp;
		open = buffer->write;
		next.write_page = open ? buffer->write_page : buffer->tail_page;
		next.head_page = buffer->head_page;
		next.read = buffer->read;
		next.lost = 0;
		page = buffer_page(buffer, next.write_page);
		next.time_stamp = page->time_stamp;
		next.ended_page = next.write_page;
		next.ended = next.commit = page->commit;
		next.now = rb_now(buffer);
		at = open ? open : next.commit;
		next.commit_end = open ? buffer->commit_end : at;
		if (at == 0)
			next.time_stamp = next.now;
		delta = at ? next.now - next.stamp : 0;
		total = size + (delta >> RINGBUF_DELTA_BITS ? 8 : 0);
		if (at > RING_BUFFER_DATA || at + total > RING_BUFFER_DATA) {
			total = size;
			delta = at = 0;
			if (!rb_move_tail(buffer, &next, size))
				return 0;
		} else {
			next.write = at + total;
			if (next.write_page == buffer->tail_page)
				next.commit_end = next.write;
			else
				next.commit = next.write;
		}
	} while (!rb_reserve(buffer, &next));
	event = (u32 *)(buffer_page(buffer, next.write_page)->data + at);
	if (delta >> RINGBUF_DELTA_BITS) {
		*event++ = RB_EVENT_HEADER(RINGBUF_TYPE_TIME_EXTEND,
					   delta & ((1u << RINGBUF_DELTA_BITS) - 1));
		*event++ = delta >> RINGBUF_DELTA_BITS;
		delta = 0;
	}
	*event = delta;
	return event;
}

/* ring_buffer_lock_reserve() on `buffer`. */
static inline __attribute__((always_inline)) void *rb_lock_reserve(ring_buffer *buffer,
								   unsigned long length)
{
	ring_buffer *to = &unused_buffer;
	u32 words = length / 4, size = (words <= RINGBUF_TYPE_DATA_MAX ? 4 : 8) + length;
	u64 stamp = buffer->write_stamp, now, delta; /* read first */
	u32 tail = buffer->tail_page, at, *event;
	unsigned long same;

	if (!(buffer->flags & RB_RECORD_ON) || tail >= buffer->nr_pages || !buffer->pages ||
	    length > RING_BUFFER_DATA - 8)
		return 0;
	buffer->committing++;
	at = buffer_page(buffer, tail)->commit;
	now = this_clock->ticks;
	delta = now - stamp;
	if (unlikely(buffer->write || at - 1 >= RING_BUFFER_DATA - size ||
		     delta >> RINGBUF_DELTA_BITS || buffer->flags & RB_CLOCK_COUNTER))
		goto slow;
	event = (u32 *)(buffer_page(buffer, tail)->data + at);
	same = rb_unchanged(buffer, stamp);
	to = SELECT(same, buffer, to);
	to->write = to->commit_end = at + size;
	to->write_page = tail;
	to->write_stamp = now;
	to->entries++;
	if (unlikely(!same)) {
slow:
		event = rb_reserve_slow(buffer, size);
		if (!event) {
			rb_end_commit(buffer);
			return 0;
		}
		delta = *event;
	}
	*event++ = RB_EVENT_HEADER(words <= RINGBUF_TYPE_DATA_MAX ? words : 0, delta);
	if (words > RINGBUF_TYPE_DATA_MAX)
		*event++ = length + 4;
	return event;
}

/*
 * Reserve `length` bytes of data (a multiple of 4), or return 0. The event is
 * invisible before ring_buffer_unlock_commit().
 */
ON_ONE_PAGE(1024) void *ring_buffer_lock_reserve(unsigned long length)
{
	return rb_lock_reserve(&this_cpu->buffer, length);
}

/* Commit the last reservation of this context. */
void ring_buffer_unlock_commit(void)
{
	rb_end_commit(&this_cpu->buffer);
}

/* The same in another buffer of this CPU. */
ON_ONE_PAGE(1024) void *array_buffer_lock_reserve(ring_buffer *buffer, unsigned long length)
{
	return rb_lock_reserve(buffer, length);
}

void array_buffer_unlock_commit(ring_buffer *buffer)
{
	rb_end_commit(buffer);
}
