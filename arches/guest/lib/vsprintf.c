// SPDX-License-Identifier: GPL-2.0-or-later
/* Formatting and parsing of numbers. Modelled on lib/vsprintf.c. */
#include "module.h"

struct printf_spec {
	int width, left, zero, is_long;
};

struct buffer {
	char *buf;
	size_t size, len;
};

static inline void put(struct buffer *b, char c)
{
	if (b->len + 1 < b->size)
		b->buf[b->len] = c;
	b->len++;
}

static void string(struct buffer *b, const char *s, struct printf_spec *spec)
{
	int pad;

	if (!s)
		s = "(null)";
	pad = spec->width - (int)strlen(s);
	for (; !spec->left && pad > 0; pad--)
		put(b, ' ');
	while (*s)
		put(b, *s++);
	for (; pad > 0; pad--)
		put(b, ' ');
}

static void number(struct buffer *b, unsigned long n, unsigned int base, int negative,
		   struct printf_spec *spec)
{
	char digits[24];
	int len = 0, pad;

	do {
		digits[len++] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	pad = spec->width - len - negative;
	for (; !spec->zero && !spec->left && pad > 0; pad--)
		put(b, ' ');
	if (negative)
		put(b, '-');
	for (; spec->zero && pad > 0; pad--)
		put(b, '0');
	while (len)
		put(b, digits[--len]);
	for (; pad > 0; pad--)
		put(b, ' ');
}

static const char *format_decode(const char *fmt, struct printf_spec *spec)
{
	spec->width = spec->left = spec->zero = spec->is_long = 0;
	for (;; fmt++) {
		if (*fmt == '-')
			spec->left = 1;
		else if (*fmt == '0')
			spec->zero = 1;
		else
			break;
	}
	while (*fmt >= '0' && *fmt <= '9')
		spec->width = spec->width * 10 + *fmt++ - '0';
	for (; *fmt == 'l'; fmt++)
		spec->is_long = 1;
	return fmt;
}

/* Return the length of the whole text; `buf` gets at most `size` bytes with the NUL. */
int vsnprintf(char *buf, size_t size, const char *fmt, __builtin_va_list args)
{
	struct buffer b = { buf, size, 0 };
	struct printf_spec spec;

	for (; *fmt; fmt++) {
		unsigned long n;

		if (*fmt != '%') {
			put(&b, *fmt);
			continue;
		}
		fmt = format_decode(fmt + 1, &spec);
		switch (*fmt) {
		case 'c':
			put(&b, (char)__builtin_va_arg(args, int));
			break;
		case 's':
			string(&b, __builtin_va_arg(args, const char *), &spec);
			break;
		case 'p':
			spec.zero = 1;
			spec.width = 2 * sizeof(long);
			number(&b, (unsigned long)__builtin_va_arg(args, void *), 16, 0, &spec);
			break;
		case 'd': {
			long d = spec.is_long ? __builtin_va_arg(args, long)
					      : __builtin_va_arg(args, int);

			number(&b, d < 0 ? -(unsigned long)d : (unsigned long)d, 10, d < 0, &spec);
			break;
		}
		case 'u':
		case 'x':
			n = spec.is_long ? __builtin_va_arg(args, unsigned long)
					 : __builtin_va_arg(args, unsigned int);
			number(&b, n, *fmt == 'u' ? 10 : 16, 0, &spec);
			break;
		case 0:
			fmt--;
			break;
		default:
			put(&b, *fmt);
		}
	}
	if (size)
		buf[min(b.len, size - 1)] = 0;
	return b.len;
}
EXPORT_SYMBOL(vsnprintf);

static void pack(struct buffer *b, const void *value, size_t size)
{
	const char *from = value;

	while (b->len % sizeof(u32))
		put(b, 0);
	while (size--)
		put(b, *from++);
}

/* Pack the arguments of `fmt`, for a reader that has it; return the words that they take. */
int vbin_printf(u32 *bin, size_t words, const char *fmt, __builtin_va_list args)
{
	struct buffer b = { (char *)bin, words * sizeof(u32) + 1, 0 };
	struct printf_spec spec;

	for (; *fmt; fmt++) {
		const char *s;
		unsigned long n;
		unsigned int i;

		if (*fmt != '%')
			continue;
		fmt = format_decode(fmt + 1, &spec);
		switch (*fmt) {
		case 'c':
			put(&b, (char)__builtin_va_arg(args, int));
			break;
		case 's':
			s = __builtin_va_arg(args, const char *);
			for (s = s ? s : "(null)"; *s; s++)
				put(&b, *s);
			put(&b, 0);
			break;
		case 'p':
			n = (unsigned long)__builtin_va_arg(args, void *);
			pack(&b, &n, sizeof(n));
			break;
		case 'd':
		case 'u':
		case 'x':
			if (spec.is_long) {
				n = __builtin_va_arg(args, unsigned long);
				pack(&b, &n, sizeof(n));
			} else {
				i = __builtin_va_arg(args, unsigned int);
				pack(&b, &i, sizeof(i));
			}
			break;
		case 0:
			fmt--;
			break;
		}
	}
	pack(&b, NULL, 0);
	return b.len / sizeof(u32);
}

int snprintf(char *buf, size_t size, const char *fmt, ...)
{
	__builtin_va_list args;
	int n;

	__builtin_va_start(args, fmt);
	n = vsnprintf(buf, size, fmt, args);
	__builtin_va_end(args);
	return n;
}
EXPORT_SYMBOL(snprintf);

long simple_strtol(const char *s, char **end)
{
	int negative = *s == '-';
	long n = 0;

	for (s += negative; *s >= '0' && *s <= '9'; s++)
		n = n * 10 + *s - '0';
	if (end)
		*end = (char *)s;
	return negative ? -n : n;
}
EXPORT_SYMBOL(simple_strtol);
