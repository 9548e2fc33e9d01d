/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages and slabs. Modelled on linux/{mm,gfp,slab}.h. */
#ifndef MM_H
#define MM_H

#include "lock.h"

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#define MAX_ORDER 11
#define GFP_KERNEL 0x1u
#define GFP_ATOMIC 0x2u
#define __GFP_ZERO 0x4u

struct kmem_cache;

/* One descriptor for each page of RAM. */
struct page {
	struct list_head lru;         /* free list of its order, or partial list of its cache */
	struct kmem_cache *slab_cache; /* only for a slab */
	void *freelist;               /* first free object of the slab */
	u16 inuse, order;             /* objects allocated; order of the block it heads */
	u8 buddy, unused[3];          /* 1: heads a free block */
	int refcount;
};

/* The descriptors are at the start of the RAM they describe. */
#define mem_map ((struct page *)DIRECT_MAP)
#define pfn_to_page(pfn) (mem_map + (pfn))
#define page_to_pfn(page) ((unsigned long)((page) - mem_map))

static inline struct page *virt_to_page(const void *addr)
{
	return pfn_to_page(((unsigned long)addr - DIRECT_MAP) >> PAGE_SHIFT);
}

static inline void *page_address(const struct page *page)
{
	return (void *)(DIRECT_MAP + (page_to_pfn(page) << PAGE_SHIFT));
}

extern unsigned long mem_size; /* bytes of RAM at DIRECT_MAP, set by the machine */

void mem_init(void);
struct page *__alloc_pages(gfp_t gfp, unsigned int order);
void __free_pages(struct page *page, unsigned int order);
unsigned long __get_free_pages(gfp_t gfp, unsigned int order);
unsigned long get_zeroed_page(gfp_t gfp);
void free_pages(unsigned long addr, unsigned int order);
unsigned long nr_free_pages(void);
unsigned long totalram_pages(void);

struct kmem_cache {
	const char *name;
	unsigned int object_size, size, order;
	spinlock_t lock;
	struct list_head partial; /* slabs with a free object */
	struct list_head list;
	unsigned long nr_slabs, nr_objects;
};

void kmem_cache_init(void);
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size);
void kmem_cache_destroy(struct kmem_cache *s);
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp);
void kmem_cache_free(struct kmem_cache *s, void *object);
unsigned long kmem_cache_shrink_all(void);
unsigned long slab_objects(void);
void *__kmalloc(size_t size, gfp_t gfp);
void kfree(const void *object);
#define kmalloc(size, gfp) __kmalloc(size, gfp)
#define kzalloc(size, gfp) __kmalloc(size, (gfp) | __GFP_ZERO)

void kswapd_init(void);

#endif
