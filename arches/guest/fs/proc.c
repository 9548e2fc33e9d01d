// SPDX-License-Identifier: GPL-2.0-or-later
/* Kernel state as files. Modelled on fs/proc/. */
#include "fs.h"
#include "irq.h"
#include "sched.h"

static LIST_HEAD(proc_subdir);
static DEFINE_SPINLOCK(proc_subdir_lock);
static DEFINE_MUTEX(proc_inode_mutex); /* one name for each entry, even in a race */

static inline struct proc_dir_entry *PDE(struct inode *inode)
{
	return inode->i_private;
}

static int proc_reg_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *pde = PDE(inode);

	__atomic_add_fetch(&pde->in_use, 1, __ATOMIC_RELAXED);
	return pde->ops->proc_show ? single_open(file, pde->ops->proc_show, pde->data) : 0;
}

static ssize_t proc_reg_read(struct file *file, char *buf, size_t count, loff_t *pos)
{
	return PDE(file->f_inode)->ops->proc_show ? seq_read(file, buf, count, pos) : -EIO;
}

static ssize_t proc_reg_write(struct file *file, const char *buf, size_t count, loff_t *pos)
{
	const struct proc_ops *ops = PDE(file->f_inode)->ops;

	return ops->proc_write ? ops->proc_write(file, buf, count) : -EIO;
}

static int proc_reg_release(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *pde = PDE(inode);

	__atomic_sub_fetch(&pde->in_use, 1, __ATOMIC_RELAXED);
	return pde->ops->proc_show ? single_release(inode, file) : 0;
}

static const struct file_operations proc_reg_file_ops = {
	.open = proc_reg_open,
	.read = proc_reg_read,
	.write = proc_reg_write,
	.release = proc_reg_release,
};

static const struct file_operations proc_root_operations = { .iterate = dcache_readdir };
static const struct inode_operations proc_file_inode_operations = { 0 };

static struct proc_dir_entry *pde_subdir_find(const char *name)
{
	struct proc_dir_entry *pde;

	list_for_each_entry(pde, &proc_subdir, list)
		if (!strcmp(pde->name, name))
			return pde;
	return NULL;
}

static struct inode *proc_get_inode(struct super_block *sb, struct proc_dir_entry *pde)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_mode = S_IFREG | (pde->ops->proc_write ? 0644 : 0444);
	inode->i_private = pde;
	inode->i_op = &proc_file_inode_operations;
	inode->i_fop = &proc_reg_file_ops;
	return inode;
}

/* An entry gets its name in the tree on the first lookup. */
static struct dentry *proc_lookup(struct inode *dir, struct dentry *dentry)
{
	struct dentry *found;
	struct proc_dir_entry *pde;
	struct inode *inode = NULL;

	spin_lock(&proc_subdir_lock);
	pde = pde_subdir_find(dentry->d_name);
	spin_unlock(&proc_subdir_lock);
	if (!pde) {
		dput(dentry);
		return ERR_PTR(-ENOENT);
	}
	mutex_lock(&proc_inode_mutex);
	found = d_lookup(dentry->d_parent, dentry->d_name);
	if (!found) {
		inode = proc_get_inode(dir->i_sb, pde);
		if (inode)
			d_instantiate(dentry, inode);
	}
	mutex_unlock(&proc_inode_mutex);
	if (inode)
		return dentry;
	dput(dentry);
	return found ? found : ERR_PTR(-ENOMEM);
}

static const struct inode_operations proc_root_inode_operations = { .lookup = proc_lookup };

struct proc_dir_entry *proc_create(const char *name, const struct proc_ops *ops)
{
	struct proc_dir_entry *pde = kzalloc(sizeof(*pde), GFP_KERNEL);

	if (!pde)
		return NULL;
	strscpy(pde->name, name, sizeof(pde->name));
	pde->ops = ops;
	spin_lock(&proc_subdir_lock);
	list_add_tail(&pde->list, &proc_subdir);
	spin_unlock(&proc_subdir_lock);
	return pde;
}

static int proc_fill_super(struct super_block *sb)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return -ENOMEM;
	inode->i_mode = S_IFDIR | 0555;
	inode->i_op = &proc_root_inode_operations;
	inode->i_fop = &proc_root_operations;
	sb->s_root = d_alloc_root(inode);
	return sb->s_root ? 0 : -ENOMEM;
}

static struct file_system_type proc_fs_type = {
	.name = "proc",
	.fill_super = proc_fill_super,
};

void proc_root_init(void)
{
	register_filesystem(&proc_fs_type);
	proc_register_files();
}
