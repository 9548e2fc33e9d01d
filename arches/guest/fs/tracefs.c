// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Directories of tracefs. Modelled on fs/tracefs/inode.c, and on kernel/trace/trace_events.c,
 * which is not traced. Only the events that the clients of a mount define have directories here:
 * the host keeps the tree that is read and written.
 */
#include "fs.h"

static struct dentry *tracefs_mount;

struct dentry *tracefs_create_dir(const char *name, struct dentry *parent)
{
	char d_name[NAME_MAX + 1];
	struct dentry *dentry;
	int err;

	strscpy(d_name, name, sizeof(d_name));
	err = vfs_mkdir(parent, d_name);
	if (err)
		return ERR_PTR(err);
	dentry = d_lookup(parent, d_name);
	dput(dentry); /* the tree holds it until tracefs_remove() */
	return dentry;
}

void tracefs_remove(struct dentry *dentry)
{
	d_delete(dentry);
}

static notrace struct dentry *find_dir(const char *name, struct dentry *parent)
{
	char d_name[NAME_MAX + 1];
	struct dentry *dentry;

	strscpy(d_name, name, sizeof(d_name));
	dentry = d_lookup(parent, d_name);
	if (dentry)
		dput(dentry);
	return dentry;
}

static notrace struct dentry *event_subsystem_dir(const char *system)
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
notrace long event_create_dir(const char *system, const char *name)
{
	struct dentry *dir = event_subsystem_dir(system);

	if (!IS_ERR(dir))
		dir = tracefs_create_dir(name, dir);
	return IS_ERR(dir) ? PTR_ERR(dir) : 0;
}

notrace long event_remove_dir(const char *system, const char *name)
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
