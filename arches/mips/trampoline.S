/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a module brings along to reach the kernel's mcount and ftrace_caller when
 * its call sites are near calls: `jal` stays within 256 MB of itself, and these
 * load all of an address. For every port; PTR_LA is what makes an address there.
 *
 *	void _mcount_trampoline(void)
 *	void ftrace_caller_trampoline(void)
 *
 * They jump and do not call, `jr` and no `jalr`: ra has the way back into the
 * traced function, and what they lead to returns by it. at and the arguments
 * stay; t0 is free behind a prologue.
 */
	.text
	.set	noreorder
	.set	noat

#if _MIPS_SIM == _ABI64
#define PTR_LA dla
#else
#define PTR_LA la
#endif

	.macro	TRAMPOLINE name
	.globl	\name\()_trampoline
	.type	\name\()_trampoline, @function
\name\()_trampoline:
	PTR_LA	$t0, \name
	jr	$t0
	nop
	.size	\name\()_trampoline, . - \name\()_trampoline
	.endm

	.balign	64
	TRAMPOLINE _mcount
	TRAMPOLINE ftrace_caller

	.section .note.GNU-stack,"",@progbits
