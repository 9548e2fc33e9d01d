// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Locates a function's return address on MIPS. A call site is after the prologue, so the
 * return address is in the function's frame; only the instruction that stored it shows
 * the offset. A leaf function has not stored it and returns through ra, which
 * ftrace_caller restores. ftrace_get_parent_ra_addr() in arch/mips/kernel/ftrace.c does
 * the same, and like this file compares the word that it finds with the return
 * address.
 */
#include "tracer.h"

#if _MIPS_SIM == _ABI64
#define STORE_RA 0xffbf0000u /* sd ra, n(sp) */
#define MOVE_SP 0x67bd0000u  /* daddiu sp, sp, n */
#else
#define STORE_RA 0xafbf0000u /* sw ra, n(sp) */
#define MOVE_SP 0x27bd0000u  /* addiu sp, sp, n */
#endif
#define OPERATION 0xffff0000u
#define NOT_BASE 0xfc1f0000u /* all bits but those of the base register */
#define SP 29

/*
 * The number of functions with call sites, and their sorted start addresses; then FOUND pairs of
 * a call site and the start of its function, from earlier lookups. The host first writes a new
 * table, without pairs, then its address.
 */
volatile unsigned long ftrace_functions;

#define FOUND 256 /* also in core/ftrace/tracer.py */

static __attribute__((noinline)) unsigned long find_function(const u64 *table, unsigned long ip)
{
	unsigned long low = 0, high = table[0];

	while (low < high) {
		unsigned long middle = (low + high) / 2;

		if ((unsigned long)table[1 + middle] <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? (unsigned long)table[low] : ip;
}

/* One block reads both words of a pair, and one block writes both. */
static ON_ONE_PAGE(256) __attribute__((noinline)) unsigned long function_start(unsigned long ip)
{
	u64 *table = (u64 *)ftrace_functions;
	volatile u64 *found = &table[1 + (unsigned long)table[0] + (ip >> 6) % FOUND * 2];
	unsigned long site = found[0], start = found[1];

	if (unlikely(site != ip)) {
		start = find_function(table, ip);
		found[0] = ip;
		found[1] = start;
	}
	return start;
}

/* A prologue has no jump or branch: code before one belongs to a function without a symbol. */
static inline __attribute__((always_inline)) int is_jump(u32 insn)
{
	u32 opcode = insn >> 26, function = insn & 63;

	return opcode ? opcode < 8 : function == 8 || function == 9; /* jr, jalr */
}

/* Whether sp or the place of ra is computed, as in a frame of more than 32 KB. */
static inline __attribute__((always_inline)) int is_computed(u32 insn)
{
	return (insn >> 26 == 0 && (insn >> 11 & 31) == SP) ||
	       (insn & NOT_BASE) == (STORE_RA & NOT_BASE);
}

/* Most of a prologue: stores of other registers. This has no branch. */
static inline __attribute__((always_inline)) int is_plain(u32 insn)
{
	u32 other = ((insn & NOT_BASE) ^ (STORE_RA & NOT_BASE)) && 1;

	OPTIMIZER_HIDE_VAR(other);
	return other & (insn >> 26 > 7) & ((insn & OPERATION) != MOVE_SP);
}

/*
 * `self_addr` is the function's call site, `sp` its stack pointer, *ra its link register.
 * If the return address is not found, the function is not traced.
 */
void prepare_ftrace_return_mips(unsigned long self_addr, unsigned long sp, unsigned long *ra)
{
	const u32 *start = (const u32 *)function_start(self_addr);
	unsigned long *stored = 0;

	for (const u32 *insn = (const u32 *)self_addr; insn-- > start;) {
		long offset = (short)*insn;

		if (likely(is_plain(*insn)))
			continue;
		if (is_jump(*insn))
			break;
		if ((*insn & OPERATION) == STORE_RA)
			stored = (unsigned long *)(sp + offset);
		else if ((*insn & OPERATION) == MOVE_SP && offset < 0)
			sp -= offset;
		else if (is_computed(*insn))
			return;
	}
	if (stored && *stored != *ra)
		return;
	prepare_ftrace_return(stored ? stored : ra, self_addr, sp);
}
