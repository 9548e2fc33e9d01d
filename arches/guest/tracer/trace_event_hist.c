// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Histograms of events, their variables and their actions. Modelled on
 * kernel/trace/trace_events_hist.c and tracing_map.c: a map with open addressing, from which
 * nothing is removed. The host makes the map and the expressions, and reads and sorts the content.
 */
#include "trace_events.h"

#define HIST_CPUS 8
#define HIST_SCRATCH 1024 /* words of a CPU; an event made by an event needs more of them */
#define HIST_OPERANDS 8

/* Memory for the events that a CPU is counting, the outermost one first. */
static struct {
	volatile u32 used;
	u32 unused;
	u64 words[HIST_SCRATCH];
} hist_scratch[HIST_CPUS];

static u32 hist_locked;
static volatile u32 hist_owner; /* number of the CPU that has the lock, from 1 */

/* What an expression is evaluated for. */
struct hist_context {
	const struct hist_trigger *hist;
	const struct trace_event_buffer *event;
	u64 *refs; /* values of the references */
	char *elt; /* 0 for keys */
};

/* Return `words` words of this CPU, or 0 if there are no more. */
u64 *hist_scratch_get(u32 words)
{
	u32 cpu = this_cpu->cpu % HIST_CPUS, used = hist_scratch[cpu].used;

	if (words > HIST_SCRATCH - used)
		return 0;
	hist_scratch[cpu].used = used + words;
	return hist_scratch[cpu].words + used;
}

void hist_scratch_put(u32 words)
{
	hist_scratch[this_cpu->cpu % HIST_CPUS].used -= words;
}

/* Atomic to other CPUs, as in trace_irqsoff.c. */
static u32 hist_lock_taken(void)
{
	u32 taken = *(volatile u32 *)&hist_locked;

	*(volatile u32 *)&hist_locked = 1;
	return taken;
}

/* The smallest power of two that is not less than `value`, as an exponent. */
static u64 log2_of(u64 value)
{
	u64 n = 0, power = 1;

	while (n < 64 && power < value) {
		n++;
		power <<= 1;
		if (!power)
			return 64;
	}
	return n;
}

/* A division without libgcc. */
static u64 div64(u64 value, u64 divisor)
{
	u64 quotient = 0, rest = 0;

	for (int n = 0; n < 64; n++) {
		u64 carry = rest >> 63;

		rest = rest << 1 | value >> 63;
		value <<= 1;
		quotient <<= 1;
		if (carry || rest >= divisor) {
			rest -= divisor;
			quotient |= 1;
		}
	}
	return quotient;
}

/* As in the kernel, small numbers are multiplied by an inverse, so the result can be 1 too high. */
static u64 div_shift(u64 value, u64 divisor, u64 inverse)
{
	if (value < 1 << HIST_DIV_SHIFT)
		return (value * inverse + (1 << HIST_DIV_SHIFT) - 1) >> HIST_DIV_SHIFT;
	return div64(value, divisor);
}

static const char *hist_string(const struct hist_context *at, const struct hist_op *op, u32 *length)
{
	if (op->kind == HIST_KIND_EXECNAME) {
		*length = TASK_COMM_LEN;
		return at->elt + at->hist->comm;
	}
	return event_string(at->event->entry, at->event->size, op->kind, op->offset, op->size, length);
}

static u64 hist_operand(const struct hist_context *at, const struct hist_op *op)
{
	u64 value;

	switch (op->kind) {
	case HIST_KIND_HITCOUNT:
		return 1;
	case HIST_KIND_TIMESTAMP:
		value = ftrace_now();
		return op->value ? div64(value, op->value) : value;
	case FILTER_KIND_CPU:
		return this_cpu->cpu;
	case HIST_KIND_CONST:
		return op->value;
	case HIST_KIND_VAR_REF:
		return at->refs[op->offset % HIST_VARS_MAX];
	default:
		return event_number(at->event->entry, at->event->size, op->offset, op->size, op->is_signed);
	}
}

static u64 hist_operator(const struct hist_op *op, u64 left, u64 right)
{
	switch (op->kind) {
	case HIST_KIND_LOG2:
		return log2_of(right);
	case HIST_KIND_BUCKET:
		return div64(right, op->value) * op->value;
	case HIST_KIND_UMINUS:
		return -right;
	case HIST_KIND_PLUS:
		return left + right;
	case HIST_KIND_MINUS:
		return left - right;
	case HIST_KIND_MULT:
		return left * right;
	case HIST_KIND_DIV:
		return right ? div64(left, right) : ~0ull;
	default:
		return div_shift(left, right, op->value);
	}
}

static u64 hist_number(const struct hist_context *at, const struct hist_field *field)
{
	const struct hist_op *op = (const struct hist_op *)(unsigned long)at->hist->ops + field->first;
	u64 stack[HIST_OPERANDS + 1];
	u32 depth = 0;

	stack[0] = 0;
	for (u32 n = 0; n < field->nr_ops; n++, op++) {
		if (op->kind < HIST_KIND_LOG2) {
			if (depth < HIST_OPERANDS)
				stack[++depth] = hist_operand(at, op);
			continue;
		}
		if (op->kind >= HIST_KIND_PLUS && depth > 1)
			depth--;
		stack[depth] = hist_operator(op, stack[depth], stack[op->kind >= HIST_KIND_PLUS ?
								     depth + 1 : depth]);
	}
	return stack[depth];
}

static void copy_string(char *to, const char *from, u32 length, u32 room)
{
	volatile char *end = to;

	for (u32 n = 0; n < length && n + 1 < room && from[n]; n++)
		*end++ = from[n];
	*end = 0;
}

static void hist_key(const struct hist_context *at, const struct hist_field *field, char *key)
{
	const struct hist_op *op = (const struct hist_op *)(unsigned long)at->hist->ops + field->first;
	char *to = key + field->to;
	const char *text;
	u32 length;

	if (op->kind == HIST_KIND_STACK) {
		volatile u64 *calls = (volatile u64 *)to;
		u32 count = hypercall(HC_TRACE_STACK, (unsigned long)calls, HIST_STACK, at->event->ip, 1);

		for (u32 n = count; n < HIST_STACK; n++)
			calls[n] = 0;
	} else if (field->is_string) {
		text = hist_string(at, op, &length);
		copy_string(to, text, length, field->size);
	} else {
		*(u64 *)to = hist_number(at, field);
	}
}

/* Return the element with this key. If it is new, it has no number yet in the map's `slot`. */
static char *hist_lookup(const struct hist_trigger *hist, const u64 *key, u32 **slot)
{
	u32 words = hist->key_size / 8, mask = (1u << hist->bits) - 1, hash = 2166136261u;
	u32 *map = (u32 *)(unsigned long)hist->map;

	for (u32 n = 0; n < words; n++)
		hash = ((hash ^ (u32)key[n]) * 16777619u ^ (u32)(key[n] >> 32)) * 16777619u;
	hash ^= hash >> 15;
	for (u32 tries = 0; tries <= mask; tries++) {
		u32 *at = map + ((hash + tries) & mask), n = 0;
		u64 *elt = (u64 *)((unsigned long)hist->elts + (*at - 1ul) * hist->elt_size);

		*slot = at;
		if (!*at)
			return 0;
		while (n < words && elt[n] == key[n])
			n++;
		if (n == words)
			return (char *)elt;
	}
	*slot = 0;
	return 0;
}

static char *hist_insert(struct hist_trigger *hist, const u64 *key)
{
	const struct task_fields *task;
	char *elt;
	u32 *slot;

	elt = hist_lookup(hist, key, &slot);
	if (!elt) {
		if (!slot || hist->entries >= hist->max) {
			hist->drops++;
			return 0;
		}
		elt = (char *)((unsigned long)hist->elts + (unsigned long)hist->entries * hist->elt_size);
		*slot = ++hist->entries;
		for (u32 n = 0; n < hist->key_size / 8; n++)
			((u64 *)elt)[n] = key[n];
		task = (const struct task_fields *)(unsigned long)this_cpu->current_task;
		if (hist->comm)
			copy_string(elt + hist->comm, this_cpu->pid ? task->comm : "<idle>",
				    TASK_COMM_LEN, TASK_COMM_LEN);
	}
	hist->hits++;
	return elt;
}

/* The mask of the variables that are set, and after it the variables. */
static u64 *hist_vars(const struct hist_trigger *hist, char *elt)
{
	return (u64 *)(elt + hist->vars);
}

static int hist_var_is_set(const u64 *vars, u32 var)
{
	const u32 *mask = (const u32 *)vars;

	return mask[var / 32 % 2] >> (var % 32) & 1;
}

static void hist_var_set(u64 *vars, u32 var, u64 value)
{
	u32 *mask = (u32 *)vars;

	vars[1 + var] = value;
	mask[var / 32 % 2] |= 1u << (var % 32);
}

/* Read the referenced variables of this histogram or of others; return whether all are set. */
static int hist_resolve(struct hist_trigger *hist, const u64 *key, u64 *values, int self)
{
	const struct hist_var_ref *ref = (const struct hist_var_ref *)(unsigned long)hist->refs;

	for (u32 n = 0; n < hist->nr_refs && n < HIST_VARS_MAX; n++, ref++) {
		struct hist_trigger *other = (struct hist_trigger *)(unsigned long)ref->hist;
		u64 *vars;
		char *elt;
		u32 *slot;

		if ((other == hist) != self)
			continue;
		elt = hist_lookup(other, key, &slot);
		if (!elt)
			return 0;
		vars = hist_vars(other, elt);
		if (!hist_var_is_set(vars, ref->var))
			return 0;
		values[n] = vars[1 + ref->var];
		if (ref->once && !self)
			((u32 *)vars)[ref->var / 32 % 2] &= ~(1u << (ref->var % 32));
	}
	return 1;
}

static void hist_set_var(const struct hist_context *at, const struct hist_field *field)
{
	const struct hist_op *op = (const struct hist_op *)(unsigned long)at->hist->ops + field->first;
	u64 *vars = hist_vars(at->hist, at->elt);
	const char *text;
	u32 length;

	if (!field->is_string) {
		hist_var_set(vars, field->to, hist_number(at, field));
		return;
	}
	text = hist_string(at, op, &length);
	copy_string(at->elt + field->string, text, length, field->size);
	hist_var_set(vars, field->to, (unsigned long)at->elt + field->string);
}

static void hist_set_vars(const struct hist_context *at, const struct hist_field *field, u32 count)
{
	for (u32 n = 0; n < count; n++)
		hist_set_var(at, field + n);
}

/* Take a snapshot and keep its reason, if the value is new in the whole histogram. */
static void hist_snapshot(const struct hist_context *at, struct hist_action *action, u64 value)
{
	const u64 *key = (const u64 *)at->elt;

	if (action->handler == HIST_HANDLER_ONMAX ? value <= action->value : value == action->value)
		return;
	action->value = value;
	for (u32 n = 0; n < at->hist->key_size / 8; n++)
		action->key[n] = key[n];
	if (at->hist->comm)
		copy_string(action->comm, at->elt + at->hist->comm, TASK_COMM_LEN, TASK_COMM_LEN);
	action->taken = 1;
	tracing_snapshot_instance(at->event->tr, at->event->ip, 0);
}

static void hist_act(const struct hist_context *at, struct hist_action *action,
		     const struct hist_field *saved)
{
	u64 *vars = hist_vars(at->hist, at->elt), value, old;

	if (action->handler != HIST_HANDLER_ONMATCH) {
		value = at->refs[action->ref % HIST_VARS_MAX];
		old = vars[1 + action->var];
		if (action->handler == HIST_HANDLER_ONMAX ? value <= old : value == old)
			return;
		hist_var_set(vars, action->var, value);
		if (action->action == HIST_ACTION_SNAPSHOT)
			hist_snapshot(at, action, value);
	}
	if (action->action == HIST_ACTION_SAVE)
		hist_set_vars(at, saved, at->hist->nr_save);
	if (action->action == HIST_ACTION_TRACE)
		synth_event_trace((const struct synth_event *)(unsigned long)action->event,
				  at->refs, action->params, at->event->ip, at->event->irqs_off);
}

static void hist_count(struct hist_trigger *hist, struct hist_context *at, const u64 *key)
{
	const struct hist_field *vals =
		(const struct hist_field *)(unsigned long)hist->fields + hist->nr_keys;
	const struct hist_field *vars = vals + hist->nr_vals;
	struct hist_action *actions = (struct hist_action *)(unsigned long)hist->actions;
	u64 *sums;

	if (!hist_resolve(hist, key, at->refs, 0))
		return;
	at->elt = hist_insert(hist, key);
	if (!at->elt)
		return;
	sums = (u64 *)(at->elt + hist->key_size);
	for (u32 n = 0; n < hist->nr_vals; n++)
		sums[n] += hist_number(at, vals + n);
	hist_set_vars(at, vars, hist->nr_vars);
	if (!hist->nr_actions || !hist_resolve(hist, key, at->refs, 1))
		return;
	for (u32 n = 0; n < hist->nr_actions; n++)
		hist_act(at, actions + n, vars + hist->nr_vars);
}

#define HIST_WORDS (HIST_KEY_SIZE / 8 + HIST_VARS_MAX)

void hist_trigger_update(struct hist_trigger *hist, const struct trace_event_buffer *event)
{
	const struct hist_field *keys = (const struct hist_field *)(unsigned long)hist->fields;
	struct hist_context context = { hist, event, 0, 0 };
	u32 me = this_cpu->cpu + 1, nested = hist_owner == me;
	u64 *key;

	/* An NMI may have come in the middle of a change. */
	if ((nested && this_cpu->preempt_count & NMI_MASK) || hist->key_size > HIST_KEY_SIZE)
		return;
	key = hist_scratch_get(HIST_WORDS);
	if (!key)
		return;
	/* Other histograms may have longer keys. */
	for (u32 n = 0; n < (hist->nr_refs ? HIST_WORDS : hist->key_size / 8); n++)
		((volatile u64 *)key)[n] = 0;
	context.refs = key + HIST_KEY_SIZE / 8;
	for (u32 n = 0; n < hist->nr_keys && n < HIST_KEYS_MAX; n++)
		hist_key(&context, keys + n, (char *)key);
	while (!nested && hist_lock_taken())
		;
	hist_owner = me;
	hist_count(hist, &context, key);
	if (!nested) {
		hist_owner = 0;
		*(volatile u32 *)&hist_locked = 0;
	}
	hist_scratch_put(HIST_WORDS);
}
