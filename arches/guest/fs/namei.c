// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup. Modelled on fs/namei.c. */
#include "fs.h"
#include "sched.h"

struct nameidata {
	struct dentry *dentry;     /* the directory reached so far, referenced */
	char last[NAME_MAX + 1];   /* the next component to look up */
};

static struct dentry *follow_mount(struct dentry *dentry)
{
	struct dentry *root = READ_ONCE(dentry->d_mounted);

	if (!root)
		return dentry;
	dget(root);
	dput(dentry);
	return root;
}

static struct dentry *lookup_fast(struct dentry *dir, const char *name)
{
	return d_lookup(dir, name);
}

static struct dentry *lookup_slow(struct dentry *dir, const char *name)
{
	struct inode *inode = dir->d_inode;
	struct dentry *dentry;

	if (!inode->i_op->lookup)
		return ERR_PTR(-ENOENT);
	dentry = d_alloc(dir, name);
	return dentry ? inode->i_op->lookup(inode, dentry) : ERR_PTR(-ENOMEM);
}

static struct dentry *__lookup(struct dentry *dir, const char *name)
{
	struct dentry *dentry;

	if (!S_ISDIR(dir->d_inode->i_mode))
		return ERR_PTR(-ENOTDIR);
	if (!strcmp(name, ".."))
		return dget(dir->d_parent);
	dentry = lookup_fast(dir, name);
	return dentry ? dentry : lookup_slow(dir, name);
}

static int walk_component(struct nameidata *nd)
{
	struct dentry *next = __lookup(nd->dentry, nd->last);

	if (IS_ERR(next))
		return PTR_ERR(next);
	next = follow_mount(next);
	dput(nd->dentry);
	nd->dentry = next;
	return 0;
}

static inline const char *hash_name(const char *path, char *component)
{
	int n = 0;

	while (*path == '/')
		path++;
	while (*path && *path != '/') {
		if (n == NAME_MAX)
			return NULL;
		component[n++] = *path++;
	}
	component[n] = 0;
	while (*path == '/')
		path++;
	return path;
}

static void path_init(struct nameidata *nd, const char *path)
{
	struct fs_struct *fs = current->fs;

	nd->dentry = follow_mount(dget(*path == '/' ? fs->root : fs->pwd));
	nd->last[0] = 0;
}

/* Walk to the directory of the last component, which stays in nd->last. */
static int link_path_walk(const char *path, struct nameidata *nd)
{
	int err = 0;

	while (!err) {
		path = hash_name(path, nd->last);
		if (!path)
			return -ENAMETOOLONG;
		if (!*path)
			return 0;
		err = walk_component(nd);
	}
	return err;
}

static void terminate_walk(struct nameidata *nd)
{
	dput(nd->dentry);
}

static int may_open(struct inode *inode, unsigned int flags)
{
	if (S_ISDIR(inode->i_mode) && (flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	return 0;
}

static int vfs_create(struct inode *dir, struct dentry *dentry)
{
	if (!dir->i_op->create)
		return -EPERM;
	return dir->i_op->create(dir, dentry, S_IFREG | 0644);
}

/* Look up the last component, and create it with O_CREAT; the directory is locked. */
static int lookup_open(struct nameidata *nd, unsigned int flags)
{
	struct dentry *dir = nd->dentry, *dentry;
	int err;

	down_write(&dir->d_inode->i_rwsem);
	dentry = __lookup(dir, nd->last);
	if (dentry == ERR_PTR(-ENOENT) && (flags & O_CREAT)) {
		dentry = d_alloc(dir, nd->last);
		err = dentry ? vfs_create(dir->d_inode, dentry) : -ENOMEM;
		if (err) {
			if (dentry)
				dput(dentry);
			dentry = ERR_PTR(err);
		}
	}
	up_write(&dir->d_inode->i_rwsem);
	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	nd->dentry = follow_mount(dentry);
	dput(dir);
	return 0;
}

static int open_last_lookups(struct nameidata *nd, unsigned int flags)
{
	if (!nd->last[0])
		return 0;
	return flags & O_CREAT ? lookup_open(nd, flags) : walk_component(nd);
}

static int do_open(struct nameidata *nd, struct file *file)
{
	int err = may_open(nd->dentry->d_inode, file->f_flags);

	if (err)
		return err;
	err = vfs_open(nd->dentry, file);
	if (!err && (file->f_flags & O_TRUNC)) {
		down_write(&file->f_inode->i_rwsem);
		truncate_inode_pages(file->f_inode);
		up_write(&file->f_inode->i_rwsem);
	}
	return err;
}

static struct file *path_openat(const char *path, unsigned int flags)
{
	struct file *file = alloc_empty_file(flags);
	struct nameidata nd;
	int err;

	if (!file)
		return ERR_PTR(-ENFILE);
	path_init(&nd, path);
	err = link_path_walk(path, &nd);
	if (!err)
		err = open_last_lookups(&nd, flags);
	if (!err)
		err = do_open(&nd, file);
	terminate_walk(&nd);
	if (err) {
		fput(file);
		return ERR_PTR(err);
	}
	return file;
}

struct file *do_filp_open(const char *path, unsigned int flags)
{
	return path_openat(path, flags);
}

static int path_lookupat(const char *path, struct nameidata *nd)
{
	int err;

	path_init(nd, path);
	err = link_path_walk(path, nd);
	if (!err && nd->last[0])
		err = walk_component(nd);
	if (err)
		terminate_walk(nd);
	return err;
}

/* Return the name at `path`, referenced. */
struct dentry *kern_path(const char *path)
{
	struct nameidata nd;
	int err = path_lookupat(path, &nd);

	return err ? ERR_PTR(err) : nd.dentry;
}

int vfs_mkdir(struct dentry *dir, const char *name)
{
	struct inode *inode = dir->d_inode;
	struct dentry *dentry;
	int err = -EPERM;

	down_write(&inode->i_rwsem);
	dentry = d_lookup(dir, name);
	if (dentry) {
		dput(dentry);
		err = -EEXIST;
	} else if (inode->i_op->mkdir) {
		dentry = d_alloc(dir, name);
		err = dentry ? inode->i_op->mkdir(inode, dentry, S_IFDIR | 0755) : -ENOMEM;
		if (dentry)
			dput(dentry);
	}
	up_write(&inode->i_rwsem);
	return err;
}

int do_mkdirat(const char *path)
{
	struct nameidata nd;
	int err;

	path_init(&nd, path);
	err = link_path_walk(path, &nd);
	if (!err)
		err = nd.last[0] ? vfs_mkdir(nd.dentry, nd.last) : -EEXIST;
	terminate_walk(&nd);
	return err;
}

static int vfs_unlink(struct inode *dir, struct dentry *dentry)
{
	if (S_ISDIR(dentry->d_inode->i_mode))
		return -EISDIR;
	return dir->i_op->unlink ? dir->i_op->unlink(dir, dentry) : -EPERM;
}

int do_unlinkat(const char *path)
{
	struct nameidata nd;
	struct dentry *dentry;
	int err;

	path_init(&nd, path);
	err = link_path_walk(path, &nd);
	if (!err) {
		struct inode *dir = nd.dentry->d_inode;

		down_write(&dir->i_rwsem);
		dentry = __lookup(nd.dentry, nd.last);
		err = IS_ERR(dentry) ? PTR_ERR(dentry) : vfs_unlink(dir, dentry);
		up_write(&dir->i_rwsem);
		if (!IS_ERR(dentry))
			dput(dentry);
	}
	terminate_walk(&nd);
	return err;
}
