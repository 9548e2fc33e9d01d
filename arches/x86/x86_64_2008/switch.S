/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on x86-64 as it was in 2008: the function all
 * call sites call as compiled. The rest is that of x86_64.
 *
 * A site comes after the function's prologue, which has made a frame: rbp points
 * to the caller's rbp, and the function's return address is above that.
 * The compiler assumes that mcount changes no register.
 *
 * The stack after SAVE, lowest address at the bottom:
 *
 *	rsp + 72	return address of mcount: ip + MCOUNT_INSN_SIZE
 *	rsp + 64	r11
 *	...
 *	rsp		rax
 */
#include "../x86_64/switch.S"

	.macro	SAVE
	subq	$72, %rsp
	movq	%rax, (%rsp)
	movq	%rcx, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rsi, 24(%rsp)
	movq	%rdi, 32(%rsp)
	movq	%r8, 40(%rsp)
	movq	%r9, 48(%rsp)
	movq	%r10, 56(%rsp)
	movq	%r11, 64(%rsp)
	movq	72(%rsp), %rdi
	subq	$5, %rdi
	movq	8(%rbp), %rsi
	.endm

	.macro	RESTORE
	movq	(%rsp), %rax
	movq	8(%rsp), %rcx
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rsi
	movq	32(%rsp), %rdi
	movq	40(%rsp), %r8
	movq	48(%rsp), %r9
	movq	56(%rsp), %r10
	movq	64(%rsp), %r11
	addq	$72, %rsp
	.endm

	.text

/*
 * void mcount(void)
 *
 * mcount_call is a slot: it calls ftrace_stub at boot, ftrace_record_ip(ip,
 * parent_ip) once there are slots for new sites, and ftrace_stub again while
 * functions are traced.
 */
	.balign	64
	.globl	mcount, mcount_call
	.type	mcount, @function
mcount:
	SAVE
mcount_call:
	call	ftrace_stub
	RESTORE
	ret
	.size	mcount, . - mcount

/*
 * void mcount_indirect(void)
 *
 * mcount as it was before sites could be patched: the tracer is in a variable,
 * and is called if it is not ftrace_stub. Nothing calls this mcount; it is here
 * for measurements.
 */
	.balign	64
	.globl	mcount_indirect
	.type	mcount_indirect, @function
mcount_indirect:
	cmpq	$ftrace_stub, ftrace_trace_function
	jne	1f
	ret
1:	SAVE
	call	*ftrace_trace_function
	RESTORE
	ret
	.size	mcount_indirect, . - mcount_indirect

	.globl	ftrace_stub
	.type	ftrace_stub, @function
ftrace_stub:
	ret
	.size	ftrace_stub, . - ftrace_stub

	.data
	.balign	8
	.globl	ftrace_trace_function
	.type	ftrace_trace_function, @object
ftrace_trace_function:
	.quad	ftrace_stub
	.size	ftrace_trace_function, 8
