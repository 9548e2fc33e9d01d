// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages of kernel code: formats them and passes them to the tracer. Modelled on
 * kernel/trace/{trace,trace_printk}.c. A message goes to the buffer of the top trace array.
 */
#include "trace_printk.h"
#include "module.h"
#include "tracepoint.h"

#define TRACE_BUF_SIZE 512
#define CALLER_IP ((unsigned long)__builtin_return_address(0))

struct tracepoint __tracepoint_trace_printk;

static inline int trace_write(u32 type, unsigned long ip, const void *text, unsigned long len,
			      const u32 *args, unsigned long caller)
{
	const struct tracepoint *tp = &__tracepoint_trace_printk;

	if (!READ_ONCE(tp->enabled))
		return 0;
	((trace_printk_func)(unsigned long)tp->func)(type, ip, text, len, args, caller);
	return len;
}

/* A constant format: the event has its address and the packed arguments. */
int __trace_bprintk(unsigned long ip, const char *fmt, ...)
{
	u32 words[TRACE_BUF_SIZE / sizeof(u32)];
	__builtin_va_list args;
	int n;

	__builtin_va_start(args, fmt);
	n = vbin_printf(words, ARRAY_SIZE(words), fmt, args);
	__builtin_va_end(args);
	if (n > (int)ARRAY_SIZE(words))
		return 0;
	return trace_write(TRACE_BPRINT, ip, fmt, n, words, CALLER_IP);
}
EXPORT_SYMBOL(__trace_bprintk);

int __trace_printk(unsigned long ip, const char *fmt, ...)
{
	char text[TRACE_BUF_SIZE];
	__builtin_va_list args;
	int len;

	__builtin_va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	__builtin_va_end(args);
	return trace_write(TRACE_PRINT, ip, text, min(len, TRACE_BUF_SIZE - 1), NULL, CALLER_IP);
}
EXPORT_SYMBOL(__trace_printk);

/* A constant text without arguments. */
int __trace_bputs(unsigned long ip, const char *str)
{
	return trace_write(TRACE_BPUTS, ip, str, 0, NULL, CALLER_IP);
}
EXPORT_SYMBOL(__trace_bputs);

int __trace_puts(unsigned long ip, const char *str, int size)
{
	return trace_write(TRACE_PRINT, ip, str, size, NULL, CALLER_IP);
}
EXPORT_SYMBOL(__trace_puts);
