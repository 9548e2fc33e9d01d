// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory and strings. Built without call sites: the compiler emits calls to some of these. */
#include "module.h"

void *memcpy(void *to, const void *from, size_t n)
{
	char *d = to;
	const char *s = from;

	if (!(((unsigned long)d | (unsigned long)s) & (sizeof(long) - 1)))
		for (; n >= sizeof(long); n -= sizeof(long)) {
			*(long *)d = *(const long *)s;
			d += sizeof(long);
			s += sizeof(long);
		}
	while (n--)
		*d++ = *s++;
	return to;
}
EXPORT_SYMBOL(memcpy);

void *memset(void *to, int c, size_t n)
{
	char *d = to;

	if (!c && !((unsigned long)d & (sizeof(long) - 1)))
		for (; n >= sizeof(long); n -= sizeof(long)) {
			*(long *)d = 0;
			d += sizeof(long);
		}
	while (n--)
		*d++ = c;
	return to;
}
EXPORT_SYMBOL(memset);

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *p = a, *q = b;

	for (; n; n--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}
EXPORT_SYMBOL(memcmp);

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}
EXPORT_SYMBOL(strlen);

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}
EXPORT_SYMBOL(strcmp);

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++)
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	return 0;
}
EXPORT_SYMBOL(strncmp);

/* Copy as much as fits with a NUL; return the length, or -7 (E2BIG) if cut. */
ssize_t strscpy(char *to, const char *from, size_t size)
{
	size_t n = 0;

	if (!size)
		return -7;
	while (n < size - 1 && from[n]) {
		to[n] = from[n];
		n++;
	}
	to[n] = 0;
	return from[n] ? -7 : (ssize_t)n;
}
EXPORT_SYMBOL(strscpy);
