// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes and their pages. Modelled on fs/inode.c and mm/truncate.c. */
#include "fs.h"
#include "irq.h"

static struct kmem_cache *inode_cachep;

static struct inode *alloc_inode(struct super_block *sb)
{
	struct inode *inode = kmem_cache_alloc(inode_cachep, GFP_KERNEL | __GFP_ZERO);

	if (!inode)
		return NULL;
	inode->i_sb = sb;
	inode->i_count = 1;
	inode->i_nlink = 1;
	init_rwsem(&inode->i_rwsem);
	return inode;
}

struct inode *new_inode(struct super_block *sb)
{
	struct inode *inode = alloc_inode(sb);

	if (inode) {
		inode->i_ino = __atomic_add_fetch(&sb->s_next_ino, 1, __ATOMIC_RELAXED);
		inode->i_mtime = jiffies;
	}
	return inode;
}

void truncate_inode_pages(struct inode *inode)
{
	for (int i = 0; i < INODE_PAGES; i++)
		if (inode->i_pages[i]) {
			__free_pages(inode->i_pages[i], 0);
			inode->i_pages[i] = NULL;
		}
	inode->i_size = 0;
}

static void evict(struct inode *inode)
{
	truncate_inode_pages(inode);
	kmem_cache_free(inode_cachep, inode);
}

void ihold(struct inode *inode)
{
	__atomic_add_fetch(&inode->i_count, 1, __ATOMIC_RELAXED);
}

void iput(struct inode *inode)
{
	if (!__atomic_sub_fetch(&inode->i_count, 1, __ATOMIC_ACQ_REL))
		evict(inode);
}

void file_update_time(struct file *file)
{
	file->f_inode->i_mtime = jiffies;
}

void inode_init(void)
{
	inode_cachep = kmem_cache_create("inode_cache", sizeof(struct inode));
}
