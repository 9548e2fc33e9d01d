/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of each switch.S: the stack of task 0, THREAD_SIZE bytes at a multiple of
 * that, and the note to the linker that no code runs on a stack. `%` stands for `@`,
 * which begins a comment on some architectures.
 */
	.bss
	.balign	16384
	.globl	init_stack
	.type	init_stack, %object
init_stack:
	.skip	16384
	.size	init_stack, 16384

	.section .note.GNU-stack,"",%progbits
