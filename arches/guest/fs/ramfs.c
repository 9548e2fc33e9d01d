// SPDX-License-Identifier: GPL-2.0-or-later
/* A file system that lives in the caches. Modelled on fs/ramfs/inode.c. */
#include "fs.h"

static const struct file_operations ramfs_file_operations = {
	.read = generic_file_read,
	.write = generic_file_write,
};

static const struct file_operations simple_dir_operations = {
	.iterate = dcache_readdir,
};

static int ramfs_create(struct inode *dir, struct dentry *dentry, unsigned int mode);
static int ramfs_mkdir(struct inode *dir, struct dentry *dentry, unsigned int mode);

/* A name that is not in the tree does not exist. */
static struct dentry *simple_lookup(struct inode *dir, struct dentry *dentry)
{
	dput(dentry);
	return ERR_PTR(-ENOENT);
}

static int simple_unlink(struct inode *dir, struct dentry *dentry)
{
	dentry->d_inode->i_nlink--;
	d_delete(dentry);
	return 0;
}

static const struct inode_operations ramfs_dir_inode_operations = {
	.lookup = simple_lookup,
	.create = ramfs_create,
	.mkdir = ramfs_mkdir,
	.unlink = simple_unlink,
};

static const struct inode_operations ramfs_file_inode_operations = { 0 };

static struct inode *ramfs_get_inode(struct super_block *sb, unsigned int mode)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_mode = mode;
	if (S_ISDIR(mode)) {
		inode->i_op = &ramfs_dir_inode_operations;
		inode->i_fop = &simple_dir_operations;
	} else {
		inode->i_op = &ramfs_file_inode_operations;
		inode->i_fop = &ramfs_file_operations;
	}
	return inode;
}

static int ramfs_mknod(struct inode *dir, struct dentry *dentry, unsigned int mode)
{
	struct inode *inode = ramfs_get_inode(dir->i_sb, mode);

	if (!inode)
		return -ENOSPC;
	d_instantiate(dentry, inode);
	return 0;
}

static int ramfs_create(struct inode *dir, struct dentry *dentry, unsigned int mode)
{
	return ramfs_mknod(dir, dentry, mode);
}

static int ramfs_mkdir(struct inode *dir, struct dentry *dentry, unsigned int mode)
{
	return ramfs_mknod(dir, dentry, mode);
}

static int ramfs_fill_super(struct super_block *sb)
{
	struct inode *inode = ramfs_get_inode(sb, S_IFDIR | 0755);

	if (!inode)
		return -ENOMEM;
	sb->s_root = d_alloc_root(inode);
	return sb->s_root ? 0 : -ENOMEM;
}

static int kill_litter_super(struct super_block *sb)
{
	return shrink_dcache_for_umount(sb->s_root);
}

static struct file_system_type ramfs_fs_type = {
	.name = "ramfs",
	.fill_super = ramfs_fill_super,
	.kill_sb = kill_litter_super,
};

/* Turn the empty file at `path` into a device file. */
int init_special_inode(const char *path, const struct file_operations *fops)
{
	struct file *file = do_filp_open(path, O_CREAT | O_RDWR);

	if (IS_ERR(file))
		return PTR_ERR(file);
	file->f_inode->i_fop = fops;
	fput(file);
	return 0;
}

void init_ramfs_fs(void)
{
	register_filesystem(&ramfs_fs_type);
}
