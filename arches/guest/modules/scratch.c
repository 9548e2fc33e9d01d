// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A caller that keeps values in scratch registers during a call, if the compiler lets
 * it: an arm64 compiler with -fipa-ra sees that scratch_add() uses two registers and
 * leaves all values of its caller where they are, one of them in x9. With
 * -fpatchable-function-entry GCC does not do this, because the code that is patched
 * in uses registers too.
 *
 *   call scratch_call A B C D E F    the same number in each build, if all is well
 *
 * scratch.ko is built as all other code. In scratch-ipara.ko the nops were added after
 * the compiler had made its choice, so that `mov x9, x30` in scratch_add() destroys a
 * value of the caller, whether functions are traced or not.
 */
#include "module.h"

static unsigned long scratch_add(unsigned long a, unsigned long b)
{
	return a + b;
}

unsigned long scratch_call(unsigned long a, unsigned long b, unsigned long c, unsigned long d,
			   unsigned long e, unsigned long f)
{
	unsigned long g = a ^ c, h = b ^ d, i = a ^ e, j = b ^ f;
	unsigned long sum = scratch_add(a, b);

	sum = sum * 3 + c;
	sum = sum * 3 + d;
	sum = sum * 3 + e;
	sum = sum * 3 + f;
	sum = sum * 3 + g;
	sum = sum * 3 + h;
	sum = sum * 3 + i;
	return sum * 3 + j;
}
EXPORT_SYMBOL(scratch_call);

static int scratch_init(void)
{
	return 0;
}

static void scratch_exit(void)
{
}

#ifndef SCRATCH
#define SCRATCH "scratch"
#endif

MODULE_LICENSE("GPL");
DEFINE_MODULE(SCRATCH, "", scratch_init, scratch_exit);
