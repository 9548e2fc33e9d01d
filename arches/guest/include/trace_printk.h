/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages of kernel code in the trace. Modelled on trace_printk() in linux/kernel.h.
 *
 * A constant format is not copied into the event, which has only its address: `__trace_printk_fmt`
 * is the table of the formats of a module, each a pointer, or NULL for a format that is not
 * constant. The host replaces each pointer by that of a copy that stays when the module goes.
 */
#ifndef TRACE_PRINTK_H
#define TRACE_PRINTK_H

#include "kernel.h"

/* trace/trace_printk.c */
int __trace_bprintk(unsigned long ip, const char *fmt, ...) __printf(2, 3);
int __trace_printk(unsigned long ip, const char *fmt, ...) __printf(2, 3);
int __trace_bputs(unsigned long ip, const char *str);
int __trace_puts(unsigned long ip, const char *str, int size);

#define _THIS_IP_                                                               \
	({                                                                      \
		__label__ here_;                                                \
here_:                                                                          \
		(unsigned long)&&here_;                                         \
	})

/* sizeof(#__VA_ARGS__) is 1 without arguments. */
#define trace_printk(fmt, ...)                                                  \
	do {                                                                    \
		static const char *trace_printk_fmt                             \
			__attribute__((section("__trace_printk_fmt"), used)) =  \
				__builtin_constant_p(fmt) ? fmt : NULL;         \
		if (sizeof(#__VA_ARGS__) > 1 && __builtin_constant_p(fmt))      \
			__trace_bprintk(_THIS_IP_, READ_ONCE(trace_printk_fmt), ##__VA_ARGS__); \
		else if (sizeof(#__VA_ARGS__) > 1)                              \
			__trace_printk(_THIS_IP_, fmt, ##__VA_ARGS__);          \
		else if (__builtin_constant_p(fmt))                             \
			__trace_bputs(_THIS_IP_, READ_ONCE(trace_printk_fmt));  \
		else                                                            \
			__trace_puts(_THIS_IP_, fmt, strlen(fmt));              \
	} while (0)

#endif
