// SPDX-License-Identifier: GPL-2.0-or-later
/* File contents in pages of memory. Modelled on mm/filemap.c and the simple_*
 * functions of fs/libfs.c. */
#include "fs.h"

static struct page *find_get_page(struct inode *inode, unsigned long index)
{
	return index < INODE_PAGES ? inode->i_pages[index] : NULL;
}

static void copy_page_to_iter(struct page *page, unsigned long offset, char *buf, size_t n)
{
	memcpy(buf, (char *)page_address(page) + offset, n);
}

static ssize_t filemap_read(struct inode *inode, char *buf, size_t count, loff_t *pos)
{
	size_t done = 0;

	while (done < count && (unsigned long)*pos < inode->i_size) {
		unsigned long at = *pos, offset = at & (PAGE_SIZE - 1);
		size_t n = min(count - done, min(PAGE_SIZE - offset, inode->i_size - at));
		struct page *page = find_get_page(inode, at >> PAGE_SHIFT);

		if (!page)
			break;
		copy_page_to_iter(page, offset, buf + done, n);
		done += n;
		*pos += n;
	}
	return done;
}

ssize_t generic_file_read(struct file *file, char *buf, size_t count, loff_t *pos)
{
	ssize_t ret;

	down_read(&file->f_inode->i_rwsem);
	ret = filemap_read(file->f_inode, buf, count, pos);
	up_read(&file->f_inode->i_rwsem);
	return ret;
}

static struct page *add_to_page_cache(struct inode *inode, unsigned long index)
{
	struct page *page = __alloc_pages(GFP_KERNEL | __GFP_ZERO, 0);

	inode->i_pages[index] = page;
	return page;
}

static struct page *simple_write_begin(struct inode *inode, unsigned long index)
{
	struct page *page = find_get_page(inode, index);

	return page ? page : add_to_page_cache(inode, index);
}

static void simple_write_end(struct inode *inode, unsigned long end)
{
	if (end > inode->i_size)
		inode->i_size = end;
}

static ssize_t generic_perform_write(struct inode *inode, const char *buf, size_t count,
				     loff_t *pos)
{
	size_t done = 0;

	while (done < count) {
		unsigned long at = *pos, offset = at & (PAGE_SIZE - 1);
		size_t n = min(count - done, PAGE_SIZE - offset);
		struct page *page;

		if (at >> PAGE_SHIFT >= INODE_PAGES)
			return done ? (ssize_t)done : -EFBIG;
		page = simple_write_begin(inode, at >> PAGE_SHIFT);
		if (!page)
			return done ? (ssize_t)done : -ENOSPC;
		memcpy((char *)page_address(page) + offset, buf + done, n);
		simple_write_end(inode, at + n);
		done += n;
		*pos += n;
	}
	return done;
}

ssize_t generic_file_write(struct file *file, const char *buf, size_t count, loff_t *pos)
{
	struct inode *inode = file->f_inode;
	ssize_t ret;

	down_write(&inode->i_rwsem);
	if (file->f_flags & O_APPEND)
		*pos = inode->i_size;
	file_update_time(file);
	ret = generic_perform_write(inode, buf, count, pos);
	up_write(&inode->i_rwsem);
	return ret;
}
