/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 32-bit PowerPC: its first instructions,
 * the task switch, and the function every call site calls as compiled.
 *
 * Callee-saved registers: r14-r31, cr2-cr4; r2 and r13 are the system's and
 * unused here (System V ABI, PowerPC Processor Supplement, 3-14). A frame begins
 * with the back chain; the callee keeps lr at 4 of its caller's.
 * task_struct.sp is at offset 0.
 */
	.text

	.macro	FUNCTION name
	.balign	64
	.globl	\name
	.type	\name, @function
\name:
	.endm

	.macro	END name
	.size	\name, . - \name
	.endm

/*
 * void _start(void)
 *
 * CPU 0 begins here without a stack: give it that of task 0, with a frame
 * for start_kernel's lr that ends the back chain.
 */
	FUNCTION _start
	lis	%r1, init_stack + 16384 - 16@ha
	addi	%r1, %r1, init_stack + 16384 - 16@l
	li	%r0, 0
	stw	%r0, 0(%r1)
	bl	start_kernel
1:	b	1b
	END	_start

/*
 * void _mcount(void)
 *
 * The compiler's code at the start of each function calls this:
 *
 *	mflr	r0
 *	stw	r0, 4(r1)
 *	bl	_mcount
 *
 * It must leave lr as it was before that, which now lies at 4(r1), and change
 * no register that may hold an argument. r0 and ctr are free.
 */
	FUNCTION _mcount
	mflr	%r0
	mtctr	%r0
	lwz	%r0, 4(%r1)
	mtlr	%r0
	bctr
	END	_mcount

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Save prev's registers on its stack, load next's from its own. Returns prev,
 * but to next's caller: r3 is not switched. The stack of a task
 * that does not run, from task_struct.sp up:
 *
 *	 0	back chain, to 96
 *	 8	cr
 *	24	r14 ... r31
 *	96	the caller's frame: its back chain
 *	100	lr, the return address
 */
	FUNCTION __switch_to_asm
	mflr	%r0
	mfcr	%r5
	stw	%r0, 4(%r1)
	stwu	%r1, -96(%r1)
	stw	%r5, 8(%r1)
	stmw	%r14, 24(%r1)
	stw	%r1, 0(%r3)
	lwz	%r1, 0(%r4)
	lmw	%r14, 24(%r1)
	lwz	%r5, 8(%r1)
	lwz	%r0, 100(%r1)
	mtcrf	0x38, %r5
	mtlr	%r0
	addi	%r1, %r1, 96
	blr
	END	__switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * Lay out the stack above for a task that never ran: it "returns" into ret_from_fork
 * with fn in r14 and arg in r15. Its frame there ends the back chain.
 * Returns the task's first sp.
 */
	FUNCTION thread_frame
	li	%r0, 0
	addi	%r6, %r3, -16
	lis	%r7, ret_from_fork@ha
	addi	%r7, %r7, ret_from_fork@l
	stw	%r0, 0(%r6)
	stw	%r7, 4(%r6)
	addi	%r3, %r6, -96
	stw	%r6, 0(%r3)
	stw	%r0, 8(%r3)
	stw	%r4, 24(%r3)
	stw	%r5, 28(%r3)
	.irp	reg, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	stw	%r0, 4*\reg - 32(%r3)
	.endr
	blr
	END	thread_frame

/*
 * A new task's first instructions: prev in r3, from __switch_to_asm.
 */
	.balign	64
	.type	ret_from_fork, @function
ret_from_fork:
	bl	schedule_tail
	mr	%r3, %r15
	mtctr	%r14
	bctrl
	bl	do_exit
1:	b	1b
	END	ret_from_fork

#include "../../guest/init_stack.S"
