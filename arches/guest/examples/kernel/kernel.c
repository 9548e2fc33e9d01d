// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A minimal kernel: functions with call sites, and the function that the sites
 * call. It has no entry point, so nothing boots. The machine calls functions
 * on its own stack: `call fibonacci 10`.
 */
#ifdef __aarch64__ /* without the nops, or with -pg without the call */
#define notrace __attribute__((no_instrument_function, patchable_function_entry(0)))
#else
#define notrace __attribute__((no_instrument_function))
#endif

/* Called at the start of each function; must change nothing. */
#if defined(__x86_64__) || defined(__i386__)
__asm__(".globl __fentry__\n__fentry__: ret");
#elif defined(__aarch64__) /* called after the prologue with -pg, otherwise never */
__asm__(".globl _mcount\n_mcount: ret");
#elif defined(__powerpc64__) /* an ordinary call, after the prologue */
notrace void _mcount(void)
{
}
#elif defined(__mips64) /* after the prologue; at holds the old ra */
__asm__(".set push; .set noreorder; .set noat; .globl _mcount\n_mcount: jr $ra; move $ra,$1; .set pop");
#elif defined(__mips__) /* the same, and frees 8 bytes of stack */
__asm__(".set push; .set noreorder; .set noat; .globl _mcount\n"
	"_mcount: addiu $sp,$sp,8; jr $ra; move $ra,$1; .set pop");
#elif defined(__powerpc__) /* lr holds the return address, 4(r1) the old lr */
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

/* Number of steps down to 1. */
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
