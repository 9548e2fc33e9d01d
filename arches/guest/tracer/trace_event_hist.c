// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Histograms of events. Modelled on kernel/trace/trace_events_hist.c and tracing_map.c: a map with
 * open addressing, from which nothing is removed. The host allocates it, and reads and sorts it.
 */
#include "trace_events.h"

#define HIST_CPUS 8

/* The key of the event that a CPU is adding. */
static u64 hist_keys[HIST_CPUS][HIST_KEY_SIZE / 8];

/* Atomic to other CPUs, as in trace_irqsoff.c. */
static u32 hist_lock_taken(struct hist_trigger *hist)
{
	u32 taken = *(volatile u32 *)&hist->lock;

	*(volatile u32 *)&hist->lock = 1;
	return taken;
}

/* The smallest power of two that is not less than `value`, as an exponent. */
static u64 log2_of(u64 value)
{
	u64 n = 0;

	while (n < 64 && (1ull << n) < value)
		n++;
	return n;
}

/* The largest multiple of `size` up to `value`; without a division, which needs libgcc. */
static u64 bucket_of(u64 value, u64 size)
{
	u64 rest = value;

	for (int n = 63; n >= 0; n--)
		if (size << n >> n == size && rest >= size << n)
			rest -= size << n;
	return value - rest;
}

static u64 hist_number(const struct hist_field *field, const struct trace_entry *entry, u32 size)
{
	u64 value;

	switch (field->kind) {
	case HIST_KIND_HITCOUNT:
		return 1;
	case HIST_KIND_TIMESTAMP:
		value = ftrace_now();
		break;
	case FILTER_KIND_CPU:
		value = this_cpu->cpu;
		break;
	default:
		value = event_number(entry, size, field->offset, field->size, field->is_signed);
	}
	if (field->log2)
		return log2_of(value);
	return field->buckets ? bucket_of(value, field->buckets) : value;
}

static void hist_key(const struct hist_field *field, const struct trace_entry *entry, u32 size,
		     unsigned long ip, u64 *key)
{
	volatile char *to = (volatile char *)key + field->key_offset;
	const char *text;
	u32 length;

	if (field->kind == HIST_KIND_STACK) {
		volatile u64 *calls = (volatile u64 *)to;
		u32 count = hypercall(HC_TRACE_STACK, (unsigned long)calls, HIST_STACK, ip, 1);

		for (u32 n = count; n < HIST_STACK; n++)
			calls[n] = 0;
	} else if (field->kind == FILTER_KIND_STRING || field->kind == FILTER_KIND_DYN_STRING ||
		   field->kind == FILTER_KIND_COMM) {
		text = event_string(entry, size, field->kind, field->offset, field->size, &length);
		for (u32 n = 0; n < length && n < field->key_size - 1 && text[n]; n++)
			to[n] = text[n];
	} else {
		*(volatile u64 *)to = hist_number(field, entry, size);
	}
}

/* Return the slot of the key, a free one if it is new, or 0 if the map is full. */
static u64 *hist_slot(struct hist_trigger *hist, const u64 *key)
{
	u32 words = hist->key_size / 8, width = 1 + words + hist->nr_vals;
	u32 slots = 1u << hist->bits, hash = 2166136261u;
	u64 *map = (u64 *)(unsigned long)hist->map;

	for (u32 n = 0; n < words; n++)
		hash = ((hash ^ (u32)key[n]) * 16777619u ^ (u32)(key[n] >> 32)) * 16777619u;
	hash ^= hash >> 15;
	for (u32 tries = 0; tries < slots; tries++) {
		u64 *slot = map + (unsigned long)((hash + tries) & (slots - 1)) * width;
		u32 n = 0;

		if (!slot[0])
			return hist->entries < hist->max ? slot : 0;
		while (n < words && slot[1 + n] == key[n])
			n++;
		if (n == words)
			return slot;
	}
	return 0;
}

static void hist_add(struct hist_trigger *hist, const u64 *key, const struct trace_entry *entry,
		     u32 size)
{
	u32 words = hist->key_size / 8;
	u64 *slot = hist_slot(hist, key);

	if (!slot) {
		hist->drops++;
		return;
	}
	hist->hits++;
	if (!slot[0]) {
		slot[0] = 1;
		hist->entries++;
		for (u32 n = 0; n < words; n++)
			slot[1 + n] = key[n];
	}
	for (u32 n = 0; n < hist->nr_vals && n < HIST_VALS_MAX; n++)
		slot[1 + words + n] += hist_number(&hist->vals[n], entry, size);
}

void hist_trigger_update(struct hist_trigger *hist, const struct trace_entry *entry, u32 size,
			 unsigned long ip)
{
	u64 *key = hist_keys[this_cpu->cpu % HIST_CPUS];

	if (hist->paused || hist->key_size > HIST_KEY_SIZE)
		return;
	for (u32 n = 0; n < hist->key_size / 8; n++)
		((volatile u64 *)key)[n] = 0;
	for (u32 n = 0; n < hist->nr_keys && n < HIST_KEYS_MAX; n++)
		hist_key(&hist->keys[n], entry, size, ip, key);
	while (hist_lock_taken(hist))
		;
	hist_add(hist, key, entry, size);
	*(volatile u32 *)&hist->lock = 0;
}
