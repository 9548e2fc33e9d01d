// SPDX-License-Identifier: GPL-2.0-or-later
/* The directories of events. Modelled on kernel/trace/trace_events.c. */
#include "fs.h"

struct dentry *tracefs_create_dir(const char *name, struct dentry *parent);
void tracefs_remove(struct dentry *dentry);

static struct dentry *tracefs_mount;

static struct dentry *find_dir(const char *name, struct dentry *parent)
{
	char d_name[NAME_MAX + 1];
	struct dentry *dentry;

	strscpy(d_name, name, sizeof(d_name));
	dentry = d_lookup(parent, d_name);
	if (dentry)
		dput(dentry);
	return dentry;
}

static struct dentry *event_subsystem_dir(const char *system)
{
	struct dentry *dentry;

	if (!tracefs_mount) {
		dentry = kern_mount("ramfs");
		if (IS_ERR(dentry))
			return dentry;
		tracefs_mount = dentry;
	}
	dentry = find_dir(system, tracefs_mount);
	return dentry ? dentry : tracefs_create_dir(system, tracefs_mount);
}

/* Called by the machine as requests. */
long event_create_dir(const char *system, const char *name)
{
	struct dentry *dir = event_subsystem_dir(system);

	if (!IS_ERR(dir))
		dir = tracefs_create_dir(name, dir);
	return IS_ERR(dir) ? PTR_ERR(dir) : 0;
}

long event_remove_dir(const char *system, const char *name)
{
	struct dentry *dir = tracefs_mount ? find_dir(system, tracefs_mount) : NULL;
	struct dentry *dentry = dir ? find_dir(name, dir) : NULL;

	if (!dentry)
		return -ENOENT;
	tracefs_remove(dentry);
	if (list_empty(&dir->d_subdirs))
		tracefs_remove(dir);
	return 0;
}
