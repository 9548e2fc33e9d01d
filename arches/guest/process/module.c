// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the kernel itself knows of modules: how many use one. The host loads
 * them. In miniature of kernel/module. Counts are changed by plain stores
 * under a lock, since a module's memory may be out of the reach of an
 * architecture's atomic instructions.
 */
#include "lock.h"
#include "module.h"

const char vermagic[] = VERMAGIC;

/* What the port's call sites call; a module's sites do so too, until they are nops. */
void MCOUNT(void);
EXPORT_SYMBOL(MCOUNT);

static DEFINE_SPINLOCK(module_lock);

int try_module_get(struct module *mod)
{
	int ok;

	spin_lock(&module_lock);
	ok = mod->state != MODULE_STATE_GOING;
	if (ok)
		mod->refcnt++;
	spin_unlock(&module_lock);
	return ok;
}
EXPORT_SYMBOL(try_module_get);

void module_put(struct module *mod)
{
	spin_lock(&module_lock);
	mod->refcnt--;
	spin_unlock(&module_lock);
}
EXPORT_SYMBOL(module_put);
