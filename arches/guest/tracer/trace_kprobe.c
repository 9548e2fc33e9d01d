// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probe events. A kprobe is at a call site, which calls kprobe_ftrace_handler(), or at another
 * instruction, which a breakpoint replaces: the CPU then enters exc_breakpoint(). A return probe
 * is on the ret_stack of the graph tracer. Modelled on kernel/kprobes.c, trace_kprobe.c and
 * trace_probe_tmpl.h in kernel/trace/.
 */
#include "trace_kprobe.h"

volatile unsigned long kprobe_table;
volatile u32 kprobe_count;
struct probe_range probe_ranges[PROBE_RANGES];
volatile u32 probe_range_count;
u32 pt_regs_pc, pt_regs_sp, pt_regs_link;
unsigned long kretprobe_trampoline;

/* The sources of a probe's arguments. */
struct fetch_source {
	const unsigned long *regs; /* or 0 */
	unsigned long sp, retval;
	const struct trace_entry *attached; /* the event of an event probe */
	u32 attached_size;
};

/* Return the number of bytes from `address` to the end of its memory; 0 if it is not mapped. */
static unsigned long readable(unsigned long address)
{
	for (u32 n = 0; n < probe_range_count && n < PROBE_RANGES; n++)
		if (probe_ranges[n].start <= address && address < probe_ranges[n].end)
			return (unsigned long)probe_ranges[n].end - address;
	return 0;
}

/* Copy memory that may be missing; return whether all of it was there. */
static int copy_from_kernel_nofault(void *to, unsigned long from, u32 size)
{
	const u8 *source = (const u8 *)from;
	u8 *bytes = to;

	if (readable(from) < size)
		return 0;
	for (u32 n = 0; n < size; n++)
		bytes[n] = source[n];
	return 1;
}

/* Copy a string with its NUL, cut to `room` bytes; return its size, or 0 after a fault. */
static u32 strncpy_from_kernel_nofault(u8 *to, unsigned long from, u32 room)
{
	unsigned long left = 0;

	for (u32 n = 0; n < room; n++, left--) {
		if (!left)
			left = readable(from + n);
		if (!left)
			return 0;
		to[n] = *(const u8 *)(from + n);
		if (!to[n])
			return n + 1;
	}
	if (room)
		to[room - 1] = 0;
	return room;
}

/* Store the low `size` bytes of `value`. */
static void store_bytes(u8 *to, u64 value, u32 size)
{
	for (u32 n = 0; n < size; n++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		to[n] = (u8)value;
#else
		to[size - 1 - n] = (u8)value;
#endif
		value >>= 8;
	}
}

static u64 load_bytes(const u8 *from, u32 size)
{
	u64 value = 0;

	for (u32 n = 0; n < size; n++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		value = value << 8 | from[size - 1 - n];
#else
		value = value << 8 | from[n];
#endif
	}
	return value;
}

/* Cut a bit field out of its container. One bit at a time: 32-bit ports shift by constants. */
static void modify_bitfield(u8 *at, u32 size, u32 shift)
{
	u64 value = load_bytes(at, size);

	for (u32 n = 0; n < shift >> 8; n++)
		value <<= 1;
	store_bytes(at, value, size); /* drops what is above the container */
	value = load_bytes(at, size);
	for (u32 n = 0; n < (shift & 0xff); n++)
		value >>= 1;
	store_bytes(at, value, size);
}

static unsigned long attached_address(const struct fetch_source *from, u32 op, u32 offset)
{
	u32 at = offset;

	if (op == FETCH_OP_FIELD_DYN)
		at = *(const u32 *)((const u8 *)from->attached + offset) & 0xffff;
	return (unsigned long)from->attached + at;
}

/* Fetch all arguments into the event at `event`; return where its strings end. */
static u32 store_trace_args(const struct trace_probe *probe, const struct fetch_source *from,
			    u8 *event, u32 end, u32 most)
{
	const struct fetch_insn *code = (const struct fetch_insn *)(unsigned long)probe->code;
	unsigned long value = 0;
	u64 number = 0;
	int fault = 0;

	for (; code->op != FETCH_OP_END; code++) {
		u32 op = code->op, length = 0;

		if (op == FETCH_OP_ARG) {
			fault = 0;
		} else if (op == FETCH_OP_REG) {
			value = from->regs ? from->regs[code->value] : 0;
		} else if (op == FETCH_OP_STACK) {
			value = from->sp + (unsigned long)code->value * sizeof(long);
			fault |= !copy_from_kernel_nofault(&value, value, sizeof(value));
		} else if (op == FETCH_OP_STACKP) {
			value = from->sp;
		} else if (op == FETCH_OP_RETVAL) {
			value = from->retval;
		} else if (op == FETCH_OP_COMM) {
			value = (unsigned long)
				((const struct task_fields *)(unsigned long)this_cpu->current_task)->comm;
		} else if (op == FETCH_OP_FIELD_AT || op == FETCH_OP_FIELD_DYN) {
			value = attached_address(from, op, (u32)code->value);
		} else if (op == FETCH_OP_DEREF) {
			fault |= !copy_from_kernel_nofault(
				&value, value + (unsigned long)code->value, sizeof(value));
		}
		/* Longer than a register: an immediate, or a field. */
		if (op == FETCH_OP_IMM) {
			number = code->value;
			value = (unsigned long)number;
		} else if (op == FETCH_OP_FIELD) {
			number = event_number(from->attached, from->attached_size,
					      (u32)code->value, code->size, code->shift);
			value = (unsigned long)number;
		} else if (op < FETCH_OP_ST_RAW) {
			number = value;
		} else if (op == FETCH_OP_ST_RAW) {
			store_bytes(event + code->dest, fault ? 0 : number, code->size);
		} else if (op == FETCH_OP_ST_MEM) {
			if (fault || !copy_from_kernel_nofault(event + code->dest,
							       value + (unsigned long)code->value,
							       code->size))
				store_bytes(event + code->dest, 0, code->size);
		} else if (op == FETCH_OP_ST_STRING) {
			if (!fault)
				length = strncpy_from_kernel_nofault(
					event + end, value + (unsigned long)code->value, most - end);
			store_bytes(event + code->dest, length << 16 | end, 4);
			end += length;
		} else if (op == FETCH_OP_MOD_BF) {
			modify_bitfield(event + code->dest, code->size, code->shift);
		}
	}
	return end;
}

struct kprobe_entry {
	struct trace_entry ent;
	unsigned long ip;
	u8 args[sizeof(long) + PROBE_EVENT_SIZE]; /* first ret_ip, of a return probe */
};

#define KPROBE_HEAD __builtin_offsetof(struct kprobe_entry, args)

static void kprobe_trace_func(struct trace_probe *probe, const struct fetch_source *from,
			      u32 irqs_off)
{
	struct trace_event_context context = { irqs_off, 0, -1 };
	struct kprobe_entry entry;
	u32 end;

	probe->nhit++;
	if ((!from->regs && probe->needs_regs) || !trace_recursion_start(&context.recursion)) {
		probe->nmissed++;
		return;
	}
	entry.ip = (unsigned long)probe->ip;
	end = store_trace_args(probe, from, (u8 *)&entry, KPROBE_HEAD + probe->size,
			       KPROBE_HEAD + PROBE_EVENT_SIZE);
	trace_event_write(&context, probe->type, &entry.ent, end, entry.ip);
	trace_recursion_end(context.recursion);
}

/* A probed function was entered: make it return through return_to_handler. */
static void kretprobe_enter(struct trace_probe *probe, struct pt_regs *regs)
{
	unsigned long *words = (unsigned long *)regs, *ret;
	struct ftrace_ret_stack *stack = current_ret_stack();
	struct ftrace_ret_entry *entry;

	if (!regs || probe->active >= probe->maxactive || stack->index >= FTRACE_RETFUNC_DEPTH) {
		probe->nmissed++;
		return;
	}
	ret = pt_regs_link == PT_REGS_NONE ? (unsigned long *)words[pt_regs_sp] :
					     &words[pt_regs_link];
	probe->active++;
	entry = &stack->stack[stack->index];
	stack->index++;
	barrier();
	entry->ret = *ret;
	entry->func = (unsigned long)probe->ip;
	entry->fp = words[pt_regs_sp] + (pt_regs_link == PT_REGS_NONE ? sizeof(long) : 0);
	entry->told = FGRAPH_KRETPROBE;
	entry->profiled = 0;
	entry->calltime = this_clock->ticks;
	entry->probe = (unsigned long)probe;
	*ret = kretprobe_trampoline;
}

/*
 * The function returned `retval` to `ret`; `sp` is its caller's. Interrupts are off. If not
 * `traced`, the tracer was running in this context already.
 */
void kretprobe_return(struct trace_probe *probe, unsigned long ret, unsigned long sp,
		      unsigned long retval, u32 irqs_off, int traced)
{
	struct fetch_source from = { 0, sp, retval, 0, 0 };
	struct trace_event_context context = { irqs_off, 0, -1 };
	struct kprobe_entry entry;
	u32 end;

	if (probe->active)
		probe->active--;
	if (!probe->enabled)
		return;
	probe->nhit++;
	if (!traced) {
		probe->nmissed++;
		return;
	}
	entry.ip = (unsigned long)probe->ip;
	for (u32 n = 0; n < sizeof(long); n++)
		entry.args[n] = ((const u8 *)&ret)[n];
	end = store_trace_args(probe, &from, (u8 *)&entry,
			       KPROBE_HEAD + sizeof(long) + probe->size, sizeof(entry));
	trace_event_write(&context, probe->type, &entry.ent, end, entry.ip);
}

/* Write the events of all probes at `ip`; return its entry in kprobe_table, or 0. */
static const struct kprobe *kprobe_hit(unsigned long ip, struct pt_regs *regs, u32 irqs_off)
{
	const struct kprobe *table = (const struct kprobe *)kprobe_table;
	u32 low = 0, high = kprobe_count;
	struct fetch_source from = { (const unsigned long *)regs, 0, 0, 0, 0 };
	struct trace_probe *probe;

	while (low < high) {
		u32 mid = low + (high - low) / 2;

		if (table[mid].ip < ip)
			low = mid + 1;
		else
			high = mid;
	}
	if (low >= kprobe_count || table[low].ip != ip)
		return 0;
	if (regs)
		from.sp = from.regs[pt_regs_sp];
	probe = (struct trace_probe *)(unsigned long)table[low].probe;
	for (; probe; probe = (struct trace_probe *)(unsigned long)probe->next) {
		if (!probe->enabled)
			continue;
		if (probe->maxactive)
			kretprobe_enter(probe, regs);
		else
			kprobe_trace_func(probe, &from, irqs_off);
	}
	return &table[low];
}

/* The function of the ops for all kprobes at call sites. */
void kprobe_ftrace_handler(unsigned long ip, unsigned long parent_ip, void *op,
			   struct pt_regs *regs)
{
	u32 irqs_off = this_cpu->irqs_disabled;

	this_cpu->irqs_disabled = 1;
	kprobe_hit(ip, regs, irqs_off);
	this_cpu->irqs_disabled = irqs_off;
}

/*
 * The machine enters this function when a CPU executes the breakpoint at `ip`, with the CPU's
 * registers on the stack and interrupts off. The replaced instruction then runs in its slot.
 */
void exc_breakpoint(struct pt_regs *regs, unsigned long ip)
{
	const struct kprobe *kprobe = kprobe_hit(ip, regs, 1);

	/* No longer probed: the original instruction is back. */
	((unsigned long *)regs)[pt_regs_pc] = kprobe ? (unsigned long)kprobe->slot : ip;
	hypercall(HC_TRAP_RETURN, (unsigned long)regs, 0, 0, 0);
}

struct eprobe_entry {
	struct trace_entry ent;
	u8 args[PROBE_EVENT_SIZE];
};

void eprobe_trace_func(struct trace_probe *probe, const struct trace_event_buffer *event)
{
	struct trace_event_context context = { event->irqs_off, 0, -1 };
	struct fetch_source from = { 0, 0, 0, event->entry, event->size };
	struct eprobe_entry entry;
	u32 head = __builtin_offsetof(struct eprobe_entry, args);
	u32 end;

	probe->nhit++;
	end = store_trace_args(probe, &from, (u8 *)&entry, head + probe->size, sizeof(entry));
	trace_event_write(&context, probe->type, &entry.ent, end, event->ip);
}
