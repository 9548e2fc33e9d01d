// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The least that is a kernel here: functions with call sites, and what the
 * sites call. There is no entry point, so nothing is booted; the machine calls
 * functions on a stack of its own: `call fibonacci 10`.
 */
#define notrace __attribute__((no_instrument_function))

/* What the compiler calls at the start of each function; it must change nothing. */
__asm__(".globl __fentry__\n__fentry__: ret");

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
