/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on arm64: its first instructions, the task
 * switch, and _mcount, whose address ftrace needs.
 *
 * Callee-saved registers: x19-x28, and x29, the frame pointer; x30 is the return
 * address (AAPCS64, 6.1). x29 points to a frame record: the caller's x29, and
 * x30 at the entry; 0 ends the chain. task_struct.sp is at offset 0.
 */
	.text

	.macro	FUNCTION name
	.balign	64
	.globl	\name
	.type	\name, %function
\name:
	.endm

	.macro	END name
	.size	\name, . - \name
	.endm

/*
 * void _start(void)
 *
 * CPU 0 begins here without a stack: give it that of task 0, and no frame.
 */
	FUNCTION _start
	adrp	x0, init_stack + 16384
	add	sp, x0, :lo12:init_stack + 16384
	mov	x29, xzr
	mov	x30, xzr
	bl	start_kernel
1:	b	1b
	END	_start

/*
 * void _mcount(void)
 *
 * With `-pg`, the compiler's code after each function's prologue calls this. To the
 * compiler it is a call like any other: the arguments are in saved registers.
 * With `-fpatchable-function-entry` nothing calls it: a site begins as nops, and
 * only the address of this function is used.
 */
	FUNCTION _mcount
	ret
	END	_mcount

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Save prev's registers on its stack, load next's from its own. Returns prev,
 * but to next's caller: x0 is not switched. The stack of a task
 * that does not run, from task_struct.sp up:
 *
 *	 0	x29, x30: the frame record, and the return address
 *	16	x19 ... x28
 */
	FUNCTION __switch_to_asm
	stp	x29, x30, [sp, #-96]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	mov	x8, sp
	str	x8, [x0]
	ldr	x8, [x1]
	mov	sp, x8
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	x29, x30, [sp], #96
	ret
	END	__switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * Lay out the stack above for a task that never ran: it "returns" into ret_from_fork
 * with fn in x19 and arg in x20, and no frame above. Returns the task's
 * first sp.
 */
	FUNCTION thread_frame
	adrp	x8, ret_from_fork
	add	x8, x8, :lo12:ret_from_fork
	sub	x0, x0, #96
	stp	xzr, x8, [x0]
	stp	x1, x2, [x0, #16]
	stp	xzr, xzr, [x0, #32]
	stp	xzr, xzr, [x0, #48]
	stp	xzr, xzr, [x0, #64]
	stp	xzr, xzr, [x0, #80]
	ret
	END	thread_frame

/*
 * A new task's first instructions: prev in x0, from __switch_to_asm.
 */
	.balign	64
	.type	ret_from_fork, %function
ret_from_fork:
	bl	schedule_tail
	mov	x0, x20
	blr	x19
	bl	do_exit
1:	b	1b
	END	ret_from_fork

#include "../../guest/init_stack.S"
