// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The least that is a kernel here: functions with call sites, and what the
 * sites call. There is no entry point, so nothing is booted; the machine calls
 * functions on a stack of its own: `call fibonacci 10`.
 */
#ifdef __aarch64__ /* without the nops; with -pg without the call */
#define notrace __attribute__((no_instrument_function, patchable_function_entry(0)))
#else
#define notrace __attribute__((no_instrument_function))
#endif

/* What the compiler calls at the start of each function; it must change nothing. */
#if defined(__x86_64__) || defined(__i386__)
__asm__(".globl __fentry__\n__fentry__: ret");
#elif defined(__aarch64__) /* with -pg, behind the prologue; else nothing calls it */
__asm__(".globl _mcount\n_mcount: ret");
#elif defined(__powerpc64__) /* an ordinary call, behind the function's prologue */
notrace void _mcount(void)
{
}
#elif defined(__mips64) /* behind the prologue; what ra was is in at */
__asm__(".set push; .set noreorder; .set noat; .globl _mcount\n_mcount: jr $ra; move $ra,$1; .set pop");
#elif defined(__mips__) /* the same, and 8 bytes of stack are given back */
__asm__(".set push; .set noreorder; .set noat; .globl _mcount\n"
	"_mcount: addiu $sp,$sp,8; jr $ra; move $ra,$1; .set pop");
#elif defined(__powerpc__) /* where it returns to is in lr; what lr was, at 4(r1) */
__asm__(".globl _mcount\n_mcount: mflr 0; mtctr 0; lwz 0,4(1); mtlr 0; bctr");
#endif

unsigned long calls;

static unsigned long add(unsigned long a, unsigned long b)
{
	calls++;
	return a + b;
}

unsigned long fibonacci(unsigned long n)
{
	return n < 2 ? n : add(fibonacci(n - 1), fibonacci(n - 2));
}

static unsigned long collatz_step(unsigned long n)
{
	return n % 2 ? 3 * n + 1 : n / 2;
}

/* Steps down to 1. */
unsigned long collatz(unsigned long n)
{
	unsigned long steps = 0;

	for (; n > 1; n = collatz_step(n))
		steps++;
	return steps;
}

notrace unsigned long not_traced(unsigned long n)
{
	return n;
}
