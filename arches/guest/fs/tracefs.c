// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Directories of tracefs. Modelled on fs/tracefs/inode.c. Only the events that the clients of a
 * mount define have directories here: the host keeps the tree that is read and written.
 */
#include "fs.h"

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
