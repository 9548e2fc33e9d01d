// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A process's memory map: kept, copied and freed as in the kernel, although
 * all tasks run in one address space. Modelled on kernel/fork.c (mm_*)
 * and mm/mmap.c.
 */
#include "exec.h"
#include "sched.h"

static struct kmem_cache *mm_cachep, *vm_area_cachep;

struct mm_struct *mm_alloc(void)
{
	struct mm_struct *mm = kmem_cache_alloc(mm_cachep, GFP_KERNEL | __GFP_ZERO);

	if (mm) {
		mm->users = 1;
		INIT_LIST_HEAD(&mm->mmap);
		init_rwsem(&mm->mmap_lock);
	}
	return mm;
}

static struct vm_area_struct *vm_area_alloc(unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma = kmem_cache_alloc(vm_area_cachep, GFP_KERNEL);

	if (vma) {
		vma->start = start;
		vma->end = end;
	}
	return vma;
}

static void vm_area_free(struct vm_area_struct *vma)
{
	kmem_cache_free(vm_area_cachep, vma);
}

int vm_mmap(struct mm_struct *mm, unsigned long start, unsigned long len)
{
	struct vm_area_struct *vma = vm_area_alloc(start, start + len);

	if (!vma)
		return -ENOMEM;
	down_write(&mm->mmap_lock);
	list_add_tail(&vma->list, &mm->mmap);
	up_write(&mm->mmap_lock);
	return 0;
}

static int dup_mmap(struct mm_struct *mm, struct mm_struct *old)
{
	struct vm_area_struct *vma;
	int err = 0;

	down_read(&old->mmap_lock);
	list_for_each_entry(vma, &old->mmap, list) {
		err = vm_mmap(mm, vma->start, vma->end - vma->start);
		if (err)
			break;
	}
	up_read(&old->mmap_lock);
	return err;
}

struct mm_struct *dup_mm(struct mm_struct *old)
{
	struct mm_struct *mm = mm_alloc();

	if (mm && dup_mmap(mm, old)) {
		mmput(mm);
		mm = NULL;
	}
	return mm;
}

static void exit_mmap(struct mm_struct *mm)
{
	while (!list_empty(&mm->mmap)) {
		struct vm_area_struct *vma =
			list_first_entry(&mm->mmap, struct vm_area_struct, list);

		list_del_init(&vma->list);
		vm_area_free(vma);
	}
}

void mmput(struct mm_struct *mm)
{
	if (__atomic_sub_fetch(&mm->users, 1, __ATOMIC_ACQ_REL))
		return;
	exit_mmap(mm);
	kmem_cache_free(mm_cachep, mm);
}

void exit_mm(struct task_struct *p)
{
	struct mm_struct *mm = p->mm;

	p->mm = NULL;
	if (mm)
		mmput(mm);
}

void mmap_init(void)
{
	mm_cachep = kmem_cache_create("mm_struct", sizeof(struct mm_struct));
	vm_area_cachep = kmem_cache_create("vm_area_struct", sizeof(struct vm_area_struct));
}
