/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between a module and the machine, which loads it. Modelled on
 * linux/{module,export}.h.
 *
 * The loader (the host) reads, in the guest's sizes and byte order:
 *
 *   .modinfo                      NUL-terminated strings: name=, depends= (names
 *                                 with commas, or empty), vermagic=, license=
 *   .gnu.linkonce.this_module     one struct module, the symbol __this_module;
 *                                 init and exit are relocated
 *   __ksymtab                     struct kernel_symbol for each export
 *   __mcount_loc (or the port's)  call sites
 *
 *   __param                       struct kernel_param for each parameter
 *   __trace_printk_fmt            formats of trace_printk() (trace_printk.h)
 *
 * and in the kernel: __ksymtab too, and the string `vermagic`, which must equal
 * the module's. parse_args() sets the parameters (process/params.c). init runs in a task and returns 0 or -errno; then the host sets
 * state to MODULE_STATE_LIVE. A module with a nonzero refcnt is in use. exit
 * runs in a task before the module's memory is freed.
 */
#ifndef MODULE_H
#define MODULE_H

#include "kernel.h"

#define MODULE_NAME_LEN 56
#define VERMAGIC UTS_RELEASE " SMP preempt mod_unload " UTS_MACHINE

enum { MODULE_STATE_COMING, MODULE_STATE_LIVE, MODULE_STATE_GOING };

/* The stubs of ftrace_caller and ftrace_regs_caller; 0 for none. The loader writes them. */
struct mod_arch_specific {
	unsigned long tramp;
	unsigned long tramp_regs;
};

struct module {
	char name[MODULE_NAME_LEN]; /* 0 */
	s32 refcnt;                 /* 56 */
	u32 state;                  /* 60: MODULE_STATE_* */
	int (*init)(void);          /* 64 */
	void (*exit)(void);         /* 64 + the size of a pointer */
	struct mod_arch_specific arch;
};

struct kernel_symbol {
	unsigned long value;
	const char *name;
};

/* A parameter: what sets it, and where it is. */
struct kernel_param {
	const char *name;
	int (*set)(const char *val, const struct kernel_param *kp); /* 0 or -errno */
	void *arg;
	unsigned long size; /* of the memory at arg */
};

#define MODULE_ARGS_MAX 512

int param_set_int(const char *val, const struct kernel_param *kp);
int param_set_uint(const char *val, const struct kernel_param *kp);
int param_set_ulong(const char *val, const struct kernel_param *kp);
int param_set_copystring(const char *val, const struct kernel_param *kp);

#define EXPORT_SYMBOL(sym) EXPORT_SYMBOL_(sym)
#define EXPORT_SYMBOL_(sym)                                                     \
	static const char __kstrtab_##sym[]                                     \
		__attribute__((section("__ksymtab_strings"), aligned(1))) = #sym; \
	static const struct kernel_symbol __ksymtab_##sym                       \
		__attribute__((section("__ksymtab"), aligned(sizeof(long)), used)) = { \
			(unsigned long)&sym, __kstrtab_##sym                    \
		}

/* process/module.c; 0 if the module is being unloaded */
int try_module_get(struct module *mod);
void module_put(struct module *mod);

#ifdef MODULE
extern struct module __this_module;
#define THIS_MODULE (&__this_module)
#define MODULE_INFO_(line, tag, text)                                           \
	static const char __modinfo_##line[]                                    \
		__attribute__((section(".modinfo"), used, aligned(1))) = tag "=" text
#define MODULE_INFO__(line, tag, text) MODULE_INFO_(line, tag, text)
#define MODULE_INFO(tag, text) MODULE_INFO__(__COUNTER__, tag, text)
#define MODULE_PARAM_(param, type, setter)                                      \
	MODULE_INFO("parmtype", #param ":" #type);                              \
	static const struct kernel_param __param_##param                        \
		__attribute__((section("__param"), used, aligned(sizeof(long)))) = { \
			.name = #param, .set = setter, .arg = (void *)&param,   \
			.size = sizeof(param),                                  \
		}
/* `type` is int, uint or ulong; the parameter is the variable of this name. */
#define module_param(param, type) MODULE_PARAM_(param, type, param_set_##type)
/* The variable is an array of characters. */
#define module_param_string(param) MODULE_PARAM_(param, string, param_set_copystring)
#define MODULE_LICENSE(text) MODULE_INFO("license", text)

/* Once in each module: name, dependencies, init and exit. */
#define DEFINE_MODULE(modname, needs, init_fn, exit_fn)                         \
	MODULE_INFO("name", modname);                                           \
	MODULE_INFO("depends", needs);                                          \
	MODULE_INFO("vermagic", VERMAGIC);                                      \
	struct module __this_module                                             \
		__attribute__((section(".gnu.linkonce.this_module"))) = {       \
			.name = modname, .init = init_fn, .exit = exit_fn,      \
		}
#else
#define THIS_MODULE ((struct module *)NULL)
#endif

/* For another build of the same module, which can be loaded beside it. */
#ifdef __DISABLE_EXPORTS
#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(sym)
#endif

#endif
