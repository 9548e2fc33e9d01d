// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Evaluates the filter of an event. Modelled on filter_match_preds() in
 * kernel/trace/trace_events_filter.c. The host parses the filter and makes a list of tests,
 * each with the test that follows if it is true or false, as the kernel does.
 */
#include "trace_events.h"

#define FILTER_STEPS 4096 /* more than a list can need: tests only lead forward */

/*
 * Return whether `c` is in the class whose `[` is just before `pattern`. *end is set to the place
 * after its `]`; a class without `]` does not change it.
 */
static int match_class(const char *pattern, char c, const char **end)
{
	const char *p = pattern;
	int invert = *p == '!', match = 0;
	char a;

	p += invert;
	a = *p++;
	do {
		char b = a;

		if (!a)
			return 0;
		if (p[0] == '-' && p[1] != ']') {
			b = p[1];
			if (!b)
				return 0;
			p += 2;
		}
		match |= (unsigned char)a <= (unsigned char)c && (unsigned char)c <= (unsigned char)b;
		a = *p++;
	} while (a != ']');
	*end = p;
	return match != invert;
}

/* Match a shell pattern. Modelled on lib/glob.c: one position to come back to is enough. */
static int glob_match(const char *pattern, const char *text, u32 length)
{
	const char *back_pattern = 0, *end;
	u32 at = 0, back = 0;

	for (;;) {
		char c = at < length ? text[at] : 0;
		char p = *pattern++;
		int match;

		if (p == '*') {
			if (!*pattern)
				return 1;
			back_pattern = pattern;
			back = at;
			continue;
		}
		if (p == '?') {
			match = c != 0;
		} else if (p == '[') {
			end = 0;
			match = match_class(pattern, c, &end) && c;
			if (end)
				pattern = end;
			else
				match = c == '[';
		} else {
			if (p == '\\')
				p = *pattern++;
			match = c == p;
			if (match && !p)
				return 1;
		}
		if (match) {
			at++;
			continue;
		}
		if (!c || !back_pattern)
			return 0;
		pattern = back_pattern;
		at = ++back;
	}
}

static int match_full(const char *pattern, const char *text, u32 length)
{
	u32 n = 0;

	while (n < length && text[n] && text[n] == pattern[n])
		n++;
	return n < length && text[n] ? 0 : !pattern[n];
}

/* Return the characters of a field, and their maximum number in *length. */
const char *event_string(const struct trace_entry *entry, u32 total, u32 kind, u32 offset,
			 u32 size, u32 *length)
{
	const struct task_fields *task;
	u32 where;

	if (kind == FILTER_KIND_COMM) {
		task = (const struct task_fields *)(unsigned long)this_cpu->current_task;
		*length = TASK_COMM_LEN;
		return task->comm;
	}
	if (kind == FILTER_KIND_DYN_STRING) {
		where = *(const u32 *)((const char *)entry + offset);
		offset = where & 0xffff;
		size = where >> 16;
	}
	if (kind == FILTER_KIND_STRING && !size && offset < total)
		size = total - offset; /* up to the end, as in ftrace:print */
	if (offset > total || size > total - offset)
		offset = size = 0;
	*length = size;
	return (const char *)entry + offset;
}

static u64 load(const char *at, u32 size, u32 is_signed)
{
	switch (size) {
	case 1:
		return is_signed ? (u64)(s64)*(const signed char *)at : *(const u8 *)at;
	case 2:
		return is_signed ? (u64)(s64)*(const short *)at : *(const u16 *)at;
	case 4:
		return is_signed ? (u64)(s64)*(const s32 *)at : *(const u32 *)at;
	default:
		return (u64)((const u32 *)at)[0] << (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 32 : 0) |
		       (u64)((const u32 *)at)[1] << (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 0 : 32);
	}
}

u64 event_number(const struct trace_entry *entry, u32 total, u32 offset, u32 size, u32 is_signed)
{
	return offset + size > total ? 0 : load((const char *)entry + offset, size, is_signed);
}

static int compare(u32 op, u32 is_signed, u64 a, u64 b)
{
	u64 flip = is_signed ? 1ull << 63 : 0;

	switch (op) {
	case FILTER_OP_EQ:
		return a == b;
	case FILTER_OP_NE:
		return a != b;
	case FILTER_OP_LT:
		return (a ^ flip) < (b ^ flip);
	case FILTER_OP_LE:
		return (a ^ flip) <= (b ^ flip);
	case FILTER_OP_GT:
		return (a ^ flip) > (b ^ flip);
	case FILTER_OP_GE:
		return (a ^ flip) >= (b ^ flip);
	default:
		return (a & b) != 0;
	}
}

static int pred_match(const struct filter_pred *pred, const struct trace_entry *entry, u32 size)
{
	const char *pattern = (const char *)(unsigned long)pred->pattern, *text;
	u32 length;
	u64 number;

	if (pred->kind == FILTER_KIND_CPU) {
		number = this_cpu->cpu;
	} else if (pred->kind == FILTER_KIND_NUMBER) {
		number = event_number(entry, size, pred->offset, pred->size, pred->is_signed);
	} else {
		text = event_string(entry, size, pred->kind, pred->offset, pred->size, &length);
		if (pred->op == FILTER_OP_GLOB)
			return glob_match(pattern, text, length);
		return match_full(pattern, text, length) ^ (pred->op == FILTER_OP_NE);
	}
	return compare(pred->op, pred->is_signed, number, pred->value);
}

/* Whether the event passes the filter; `filter` is the address of its first test. */
int filter_match_preds(unsigned long filter, const struct trace_entry *entry, u32 size)
{
	const struct filter_pred *preds = (const struct filter_pred *)filter;
	u32 at = 0;

	for (u32 steps = 0; steps < FILTER_STEPS; steps++) {
		const struct filter_pred *pred = &preds[at];
		int match = pred_match(pred, entry, size) ^ (pred->invert != 0);

		at = match ? pred->on_true : pred->on_false;
		if (at == FILTER_ACCEPT)
			return 1;
		if (at == FILTER_REJECT)
			return 0;
	}
	return 0;
}
