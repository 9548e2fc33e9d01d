// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The parameters of modules: `name=value` words, separated by spaces; a value in double quotes
 * may have spaces. Modelled on kernel/params.c.
 */
#include "module.h"

char module_args[MODULE_ARGS_MAX];

static int is_number(const char *val, const char *end)
{
	return end != val && !*end;
}

int param_set_ulong(const char *val, const struct kernel_param *kp)
{
	char *end;
	long value = simple_strtol(val, &end);

	if (!is_number(val, end) || *val == '-')
		return -EINVAL;
	*(unsigned long *)kp->arg = value;
	return 0;
}
EXPORT_SYMBOL(param_set_ulong);

int param_set_uint(const char *val, const struct kernel_param *kp)
{
	char *end;
	long value = simple_strtol(val, &end);

	if (!is_number(val, end) || *val == '-')
		return -EINVAL;
	*(unsigned int *)kp->arg = value;
	return 0;
}
EXPORT_SYMBOL(param_set_uint);

int param_set_int(const char *val, const struct kernel_param *kp)
{
	char *end;
	long value = simple_strtol(val, &end);

	if (!is_number(val, end))
		return -EINVAL;
	*(int *)kp->arg = value;
	return 0;
}
EXPORT_SYMBOL(param_set_int);

int param_set_copystring(const char *val, const struct kernel_param *kp)
{
	if (strlen(val) + 1 > kp->size)
		return -ENOSPC;
	strscpy(kp->arg, val, kp->size);
	return 0;
}
EXPORT_SYMBOL(param_set_copystring);

static inline char dash2underscore(char c)
{
	return c == '-' ? '_' : c;
}

static int parameq(const char *a, const char *b)
{
	while (*a && dash2underscore(*a) == dash2underscore(*b)) {
		a++;
		b++;
	}
	return !*a && !*b;
}

/* Cut the next word at `args` into name and value, NULL without one; return what follows it. */
static char *next_arg(char *args, char **param, char **val)
{
	int quoted = 0;
	char *to = args;

	*param = args;
	*val = NULL;
	for (; *args && (quoted || *args != ' '); args++) {
		if (*args == '"') {
			quoted = !quoted;
		} else if (*args == '=' && !*val) {
			*to++ = 0;
			*val = to;
		} else {
			*to++ = *args;
		}
	}
	while (*args == ' ')
		args++;
	*to = 0;
	return args;
}

static int parse_one(const char *doing, const char *param, const char *val,
		     const struct kernel_param *params, unsigned long num)
{
	for (unsigned long n = 0; n < num; n++)
		if (parameq(param, params[n].name))
			return val ? params[n].set(val, &params[n]) : -EINVAL;
	printk("%s: unknown parameter '%s' ignored", doing, param);
	return 0;
}

/* Called by the machine as a request, before a module's init: set what `module_args` says. */
long parse_args(const char *doing, const struct kernel_param *params, unsigned long num)
{
	char *args = module_args, *param, *val;

	while (*args == ' ')
		args++;
	while (*args) {
		int ret;

		args = next_arg(args, &param, &val);
		ret = parse_one(doing, param, val, params, num);
		if (ret) {
			printk(ret == -ENOSPC ? "%s: `%s' too large for parameter `%s'" :
						"%s: `%s' invalid for parameter `%s'",
			       doing, val ? val : "", param);
			return ret;
		}
	}
	return 0;
}
