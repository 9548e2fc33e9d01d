// SPDX-License-Identifier: GPL-2.0-or-later
/* File system types and mounts. Modelled on
 * fs/{namespace,super,filesystems}.c. */
#include "fs.h"

static LIST_HEAD(file_systems);
static DEFINE_MUTEX(namespace_sem);

int register_filesystem(struct file_system_type *fs)
{
	mutex_lock(&namespace_sem);
	list_add_tail(&fs->list, &file_systems);
	mutex_unlock(&namespace_sem);
	return 0;
}

static struct file_system_type *get_fs_type(const char *name)
{
	struct file_system_type *fs;

	list_for_each_entry(fs, &file_systems, list)
		if (!strcmp(fs->name, name))
			return fs;
	return NULL;
}

static struct super_block *alloc_super(struct file_system_type *type)
{
	struct super_block *sb = kzalloc(sizeof(*sb), GFP_KERNEL);

	if (sb)
		sb->s_type = type;
	return sb;
}

static struct dentry *vfs_kern_mount(struct file_system_type *type)
{
	struct super_block *sb;
	int err;

	if (!type)
		return ERR_PTR(-ENODEV);
	sb = alloc_super(type);
	if (!sb)
		return ERR_PTR(-ENOMEM);
	err = type->fill_super(sb);
	if (err) {
		kfree(sb);
		return ERR_PTR(err);
	}
	return sb->s_root;
}

static int attach_recursive_mnt(struct dentry *root, struct dentry *where)
{
	if (where->d_mounted)
		return -EBUSY;
	root->d_parent = where->d_parent;
	root->d_covers = where;
	WRITE_ONCE(where->d_mounted, root);
	return 0;
}

int do_mount(const char *type, const char *path)
{
	struct dentry *where = kern_path(path), *root;
	int err;

	if (IS_ERR(where))
		return PTR_ERR(where);
	mutex_lock(&namespace_sem);
	root = vfs_kern_mount(get_fs_type(type));
	err = IS_ERR(root) ? PTR_ERR(root) : attach_recursive_mnt(root, where);
	mutex_unlock(&namespace_sem);
	if (err)
		dput(where);
	return err; /* the mount keeps the reference */
}

struct dentry *kern_mount(const char *type)
{
	return vfs_kern_mount(get_fs_type(type));
}

static int deactivate_super(struct super_block *sb)
{
	int err = sb->s_type->kill_sb ? sb->s_type->kill_sb(sb) : -EBUSY;

	if (!err)
		kfree(sb);
	return err;
}

int do_umount(const char *path)
{
	struct dentry *root = kern_path(path), *where;
	int err;

	if (IS_ERR(root))
		return PTR_ERR(root);
	mutex_lock(&namespace_sem);
	where = root->d_covers;
	dput(root);
	if (where) {
		WRITE_ONCE(where->d_mounted, NULL);
		err = deactivate_super(root->d_inode->i_sb);
		if (err)
			WRITE_ONCE(where->d_mounted, root);
		else
			dput(where);
	} else {
		err = -EINVAL;
	}
	mutex_unlock(&namespace_sem);
	return err;
}
