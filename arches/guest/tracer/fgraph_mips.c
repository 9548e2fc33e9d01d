// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Location of a function's return address on MIPS. A call site is after the
 * prologue, so the return address is in the function's frame; only the instruction
 * that stored it tells where. A leaf function has not stored it and returns through
 * ra, which ftrace_caller restores. ftrace_get_parent_ra_addr() in
 * arch/mips/kernel/ftrace.c does the same.
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

#define PROLOGUE_MAX 64 /* instructions */
#define PAGE_MASK 0xffful
#define MODULES 0x40000000ul /* this address bit is set only in modules */

/* A prologue has no jump or branch: another function ends there. */
static int is_jump(u32 insn)
{
	u32 opcode = insn >> 26, function = insn & 63;

	return opcode ? opcode < 8 : function == 8 || function == 9; /* jr, jalr */
}

/* The page before a module's page may be unmapped. */
static int is_readable(const u32 *insn)
{
	unsigned long end = (unsigned long)insn + sizeof(*insn);

	return (end & PAGE_MASK) || !(end & MODULES);
}

/*
 * `self_addr` is the function's call site, `sp` its stack pointer, *ra its link register.
 * If the return address is not found, the function is not traced.
 */
void prepare_ftrace_return_mips(unsigned long self_addr, unsigned long sp, unsigned long *ra)
{
	const u32 *insn = (const u32 *)self_addr;

	for (int n = 0; n < PROLOGUE_MAX && is_readable(--insn); n++) {
		long offset = (short)*insn;

		if ((*insn & OPERATION) == STORE_RA) {
			ra = (unsigned long *)(sp + offset);
		} else if ((*insn & OPERATION) == MOVE_SP && offset < 0) {
			prepare_ftrace_return(ra, self_addr, sp - offset);
			return;
		} else if (is_jump(*insn)) {
			prepare_ftrace_return(ra, self_addr, sp);
			return;
		}
	}
}
