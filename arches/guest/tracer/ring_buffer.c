// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The writer of this CPU's ring buffer. Modelled on kernel/trace/ring_buffer.c,
 * with its page format and a simpler page ring: sub-buffers are contiguous, and
 * the reader is the host and never a CPU that writes.
 *
 * Called with interrupts off on this CPU and trace_recursion set, so nothing
 * comes between a reserve and its commit. The host fills the descriptor, which
 * is not trusted: if a page number or length is out of range, nothing is written.
 */
#include "tracer.h"

/* The clock `counter`: one number per event, across all CPUs. */
u64 trace_counter;

struct buffer_data_page {
	u64 time_stamp;
	u64 commit;
	unsigned char data[RING_BUFFER_DATA];
};

static struct buffer_data_page *buffer_page(u32 n)
{
	return (struct buffer_data_page *)(unsigned long)(this_cpu->buffer.pages +
							  (u64)n * RB_PAGE_SIZE);
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

/* Drop the oldest page: its unread events are lost. */
static void drop_head_page(u32 head)
{
	struct buffer_data_page *page = buffer_page(head);
	u32 at = this_cpu->buffer.read, end = page->commit, events = 0, bytes = 0;

	if (end > RING_BUFFER_DATA)
		end = RING_BUFFER_DATA;
	while (at + 4 <= end) {
		u32 counted, length = event_length((u32 *)(page->data + at), &counted);

		if (length < 4 || length > end - at)
			break;
		events += counted;
		bytes += length;
		at += length;
	}
	this_cpu->buffer.overrun += events;
	this_cpu->buffer.entries_bytes -= bytes;
}

/* Move to the next page, empty, with time stamp `now`; 0 if there is none. */
static int rb_move_tail(u64 now)
{
	u32 nr = this_cpu->buffer.nr_pages, next = this_cpu->buffer.tail_page + 1;
	struct buffer_data_page *page;

	if (next >= nr)
		next = 0;
	if (next == this_cpu->buffer.head_page) {
		if (!(this_cpu->buffer.flags & RB_OVERWRITE))
			return 0;
		drop_head_page(next);
		this_cpu->buffer.head_page = next + 1 < nr ? next + 1 : 0;
		this_cpu->buffer.read = 0;
	}
	page = buffer_page(next);
	page->commit = 0;
	page->time_stamp = now;
	this_cpu->buffer.tail_page = next;
	this_cpu->buffer.write_stamp = now;
	return 1;
}

static u64 rb_time_stamp(void)
{
	return this_cpu->buffer.flags & RB_CLOCK_COUNTER ? ++trace_counter : this_clock->ticks;
}

u64 ftrace_now(void)
{
	return rb_time_stamp();
}

/*
 * Reserve `length` bytes of data (a multiple of 4), or return 0. The event is
 * invisible before ring_buffer_unlock_commit().
 */
void *ring_buffer_lock_reserve(unsigned long length)
{
	u32 words = length / 4, header = words <= RINGBUF_TYPE_DATA_MAX ? 4 : 8;
	u32 size = header + length, *event;
	struct buffer_data_page *page;
	u64 now, delta, commit;

	if (!(this_cpu->buffer.flags & RB_RECORD_ON) ||
	    this_cpu->buffer.tail_page >= this_cpu->buffer.nr_pages || !this_cpu->buffer.pages ||
	    length > RING_BUFFER_DATA - 8)
		return 0;
	now = rb_time_stamp();
	page = buffer_page(this_cpu->buffer.tail_page);
	commit = page->commit;
	if (commit == 0) {
		page->time_stamp = now;
		this_cpu->buffer.write_stamp = now;
	}
	delta = now - this_cpu->buffer.write_stamp;
	if (unlikely(delta >> RINGBUF_DELTA_BITS))
		size += 8;
	if (unlikely(commit > RING_BUFFER_DATA || commit + size > RING_BUFFER_DATA)) {
		if (!rb_move_tail(now)) {
			this_cpu->buffer.dropped++;
			return 0;
		}
		page = buffer_page(this_cpu->buffer.tail_page);
		commit = 0;
		delta = 0;
	}
	event = (u32 *)(page->data + commit);
	if (unlikely(delta >> RINGBUF_DELTA_BITS)) {
		*event++ = RB_EVENT_HEADER(RINGBUF_TYPE_TIME_EXTEND,
					   delta & ((1u << RINGBUF_DELTA_BITS) - 1));
		*event++ = delta >> RINGBUF_DELTA_BITS;
		delta = 0;
	}
	*event++ = RB_EVENT_HEADER(header == 4 ? words : 0, delta);
	if (header == 8)
		*event++ = length + 4;
	this_cpu->buffer.write_stamp = now;
	return event;
}

/* Commit the `length` bytes at `data`, the last reservation. */
void ring_buffer_unlock_commit(const void *data, unsigned long length)
{
	struct buffer_data_page *page = buffer_page(this_cpu->buffer.tail_page);
	u64 commit = (const unsigned char *)data + length - page->data;

	this_cpu->buffer.entries++;
	this_cpu->buffer.entries_bytes += commit - page->commit;
	page->commit = commit;
}
