// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names. Modelled on fs/dcache.c and fs/libfs.c: every name stays in
 * memory, in its directory's list, under one lock. A dentry is freed when it is
 * deleted and has no references.
 */
#include "fs.h"

void inode_init(void);

static struct kmem_cache *dentry_cache;
static DEFINE_SPINLOCK(dcache_lock);

static struct dentry *__d_alloc(const char *name)
{
	struct dentry *dentry = kmem_cache_alloc(dentry_cache, GFP_KERNEL | __GFP_ZERO);

	if (!dentry)
		return NULL;
	strscpy(dentry->d_name, name, sizeof(dentry->d_name));
	dentry->d_count = 1;
	INIT_LIST_HEAD(&dentry->d_subdirs);
	INIT_LIST_HEAD(&dentry->d_child);
	return dentry;
}

/* Allocate a name that lookups do not find yet; d_instantiate() adds inode and list entry. */
struct dentry *d_alloc(struct dentry *parent, const char *name)
{
	struct dentry *dentry = __d_alloc(name);

	if (dentry)
		dentry->d_parent = parent;
	return dentry;
}

struct dentry *d_alloc_root(struct inode *inode)
{
	struct dentry *dentry = __d_alloc("/");

	if (dentry) {
		dentry->d_inode = inode;
		dentry->d_parent = dentry;
	}
	return dentry;
}

struct dentry *dget(struct dentry *dentry)
{
	__atomic_add_fetch(&dentry->d_count, 1, __ATOMIC_RELAXED);
	return dentry;
}

static void __dentry_kill(struct dentry *dentry)
{
	if (dentry->d_inode)
		iput(dentry->d_inode);
	kmem_cache_free(dentry_cache, dentry);
}

void dput(struct dentry *dentry)
{
	if (!__atomic_sub_fetch(&dentry->d_count, 1, __ATOMIC_ACQ_REL))
		__dentry_kill(dentry);
}

static struct dentry *__d_lookup(struct dentry *parent, const char *name)
{
	struct dentry *dentry;

	list_for_each_entry(dentry, &parent->d_subdirs, d_child)
		if (!strcmp(dentry->d_name, name))
			return dget(dentry);
	return NULL;
}

struct dentry *d_lookup(struct dentry *parent, const char *name)
{
	struct dentry *dentry;

	spin_lock(&dcache_lock);
	dentry = __d_lookup(parent, name);
	spin_unlock(&dcache_lock);
	return dentry;
}

/* The name takes the caller's reference to the inode; the tree holds one to the name. */
void d_instantiate(struct dentry *dentry, struct inode *inode)
{
	dentry->d_inode = inode;
	dget(dentry);
	spin_lock(&dcache_lock);
	list_add_tail(&dentry->d_child, &dentry->d_parent->d_subdirs);
	spin_unlock(&dcache_lock);
}

void d_delete(struct dentry *dentry)
{
	spin_lock(&dcache_lock);
	list_del_init(&dentry->d_child);
	spin_unlock(&dcache_lock);
	dput(dentry);
}

/* Names of a directory, NUL-terminated, as many as fit; once per open. */
int dcache_readdir(struct file *file, char *buf, size_t count)
{
	struct dentry *dentry;
	size_t n = 0;

	if (file->f_pos)
		return 0;
	spin_lock(&dcache_lock);
	list_for_each_entry(dentry, &file->f_dentry->d_subdirs, d_child) {
		size_t len = strlen(dentry->d_name) + 1;

		if (n + len > count)
			break;
		memcpy(buf + n, dentry->d_name, len);
		n += len;
	}
	spin_unlock(&dcache_lock);
	file->f_pos = 1;
	return n;
}

/* Free a whole tree; -EBUSY if a name in it is still referenced. */
int shrink_dcache_for_umount(struct dentry *root)
{
	struct dentry *dentry;

	spin_lock(&dcache_lock);
	list_for_each_entry(dentry, &root->d_subdirs, d_child)
		if (dentry->d_count > 1 || !list_empty(&dentry->d_subdirs)) {
			spin_unlock(&dcache_lock);
			return -EBUSY;
		}
	spin_unlock(&dcache_lock);
	while (!list_empty(&root->d_subdirs))
		d_delete(list_first_entry(&root->d_subdirs, struct dentry, d_child));
	dput(root);
	return 0;
}

void vfs_caches_init(void)
{
	dentry_cache = kmem_cache_create("dentry", sizeof(struct dentry));
	inode_init();
	files_init();
}
