/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 64-bit PowerPC: its first instructions,
 * the task switch, and the function every call site calls as compiled.
 *
 * The address of a function, in C, is that of a descriptor in .opd: the address of
 * its code, its TOC pointer for r2, an environment. The code's name has a dot.
 * Callee-saved registers: r14-r31, cr2-cr4 (64-bit PowerPC ELF ABI Supplement
 * 1.9, 3.2.1). A frame begins with the back chain; the callee keeps cr at 8 and
 * lr at 16 of its caller's. task_struct.sp is at offset 0.
 */
	.text

/* Begin the code of a function that only this file calls. */
	.macro	TEXT name
	.balign	64
	.type	.\name, @function
.\name:
	.endm

/* Begin the code of a function C can call, and give it its descriptor. */
	.macro	FUNCTION name
	.pushsection .opd, "aw"
	.balign	8
	.globl	\name
\name:
	.quad	.\name, .TOC.@tocbase, 0
	.size	\name, 24
	.popsection
	.globl	.\name
	TEXT	\name
	.endm

	.macro	END name
	.size	.\name, . - .\name
	.endm

/*
 * void _start(void)
 *
 * CPU 0 begins here without a stack: give it that of task 0, with a frame
 * for start_kernel's lr that ends the back chain, and the kernel's TOC pointer.
 * Not a C function, so it has no descriptor.
 */
	.globl	_start
	.type	_start, @function
_start:
	lis	%r2, .TOC.@highest
	ori	%r2, %r2, .TOC.@higher
	sldi	%r2, %r2, 32
	oris	%r2, %r2, .TOC.@high
	ori	%r2, %r2, .TOC.@l
	addis	%r1, %r2, init_stack + 16384 - 112@toc@ha
	addi	%r1, %r1, init_stack + 16384 - 112@toc@l
	li	%r0, 0
	std	%r0, 0(%r1)
	bl	.start_kernel
	nop
1:	b	1b
	.size	_start, . - _start

/*
 * void _mcount(void)
 *
 * The compiler's code after each function's prologue calls this. To the
 * compiler it is a call like any other: the arguments are in saved registers,
 * and the caller's lr is in the frame above.
 */
	FUNCTION _mcount
	blr
	END	_mcount

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Save prev's registers on its stack, load next's from its own. Returns prev,
 * but to next's caller: r3 is not switched. Only the kernel
 * calls this, so r2 is the same on both sides. The stack of a task that does
 * not run, from task_struct.sp up:
 *
 *	  0	back chain, to 256
 *	112	r14 ... r31
 *	256	the caller's frame: its back chain
 *	264	cr
 *	272	lr, the return address
 */
	FUNCTION __switch_to_asm
	mflr	%r0
	mfcr	%r5
	std	%r0, 16(%r1)
	stw	%r5, 8(%r1)
	stdu	%r1, -256(%r1)
	.irp	reg, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	std	%r\reg, 8*\reg(%r1)
	.endr
	std	%r1, 0(%r3)
	ld	%r1, 0(%r4)
	.irp	reg, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ld	%r\reg, 8*\reg(%r1)
	.endr
	addi	%r1, %r1, 256
	lwz	%r5, 8(%r1)
	ld	%r0, 16(%r1)
	mtcrf	0x38, %r5
	mtlr	%r0
	blr
	END	__switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * Lay out the stack above for a task that never ran: it "returns" into ret_from_fork
 * with fn, a descriptor, in r14 and arg in r15. Its frame there has the minimum
 * size and ends the back chain. Returns the task's first sp.
 */
	FUNCTION thread_frame
	li	%r0, 0
	addi	%r6, %r3, -112
	addis	%r7, %r2, .ret_from_fork@toc@ha
	addi	%r7, %r7, .ret_from_fork@toc@l
	std	%r0, 0(%r6)
	stw	%r0, 8(%r6)
	std	%r7, 16(%r6)
	addi	%r3, %r6, -256
	std	%r6, 0(%r3)
	std	%r4, 112(%r3)
	std	%r5, 120(%r3)
	.irp	reg, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	std	%r0, 8*\reg(%r3)
	.endr
	blr
	END	thread_frame

/*
 * A new task's first instructions: prev in r3, from __switch_to_asm.
 */
	TEXT	ret_from_fork
	bl	.schedule_tail
	nop
	mr	%r3, %r15
	std	%r2, 40(%r1)
	ld	%r0, 0(%r14)
	ld	%r2, 8(%r14)
	mtctr	%r0
	bctrl
	ld	%r2, 40(%r1)
	bl	.do_exit
	nop
1:	b	1b
	END	ret_from_fork

#include "../../guest/init_stack.S"
