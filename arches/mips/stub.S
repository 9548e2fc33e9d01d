/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stubs that are linked into a module whose call sites are near calls: `jal`
 * stays within its own 256 MB, and a stub loads the whole address of the kernel's
 * mcount or ftrace_caller. The author of the MIPS port, who thought of them in 2009, called
 * them trampolines, and their symbols keep that name. All MIPS ports share this file.
 *
 *	void _mcount_trampoline(void)
 *	void ftrace_caller_trampoline(void)
 *
 * With ONE_TRAMPOLINE there is only the first. Once all sites of the module are disabled,
 * ftrace rewrites the address that it loads to that of ftrace_caller.
 *
 * A stub jumps (`jr`) and does not call (`jalr`): ra holds the return address into
 * the traced function, and the stub's target returns to it. at and the
 * arguments keep their values; t0 is free after a prologue.
 */
	.text
	.set	noreorder
	.set	noat

#if _MIPS_SIM == _ABI64
#define PTR_LA dla
#else
#define PTR_LA la
#endif

	.macro	STUB name
	.globl	\name\()_trampoline
	.type	\name\()_trampoline, @function
\name\()_trampoline:
	PTR_LA	$t0, \name
	jr	$t0
	nop
	.size	\name\()_trampoline, . - \name\()_trampoline
	.endm

	.balign	64
	STUB	_mcount
#ifndef ONE_TRAMPOLINE
	STUB	ftrace_caller
#endif

	.section .note.GNU-stack,"",@progbits
