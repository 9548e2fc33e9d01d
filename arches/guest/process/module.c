// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's part of module support: use counts. The host loads modules.
 * Modelled on kernel/module. Counts are changed by plain stores under a lock
 * because an architecture's atomic instructions may not work on a module's
 * memory.
 */
#include "events.h"
#include "lock.h"
#include "module.h"

const char vermagic[] = VERMAGIC;

/* The target of the port's call sites; sites of modules call it until they are nops. */
void MCOUNT(void);
EXPORT_SYMBOL(MCOUNT);

static DEFINE_SPINLOCK(module_lock);

int try_module_get(struct module *mod)
{
	int ok;

	spin_lock(&module_lock);
	ok = mod->state != MODULE_STATE_GOING;
	if (ok) {
		mod->refcnt++;
		event_module_get(mod->name, RET_IP, mod->refcnt);
	}
	spin_unlock(&module_lock);
	return ok;
}
EXPORT_SYMBOL(try_module_get);

void module_put(struct module *mod)
{
	spin_lock(&module_lock);
	mod->refcnt--;
	event_module_put(mod->name, RET_IP, mod->refcnt);
	spin_unlock(&module_lock);
}
EXPORT_SYMBOL(module_put);

/* Called by the loader before init and after exit, while the event is on. */
__used notrace void trace_module_load(struct module *mod)
{
	event_module_load(mod->name);
}

__used notrace void trace_module_free(struct module *mod)
{
	event_module_free(mod->name);
}
