// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Free pages in power-of-two blocks. Modelled on mm/page_alloc.c: one
 * zone, the RAM at DIRECT_MAP, whose first pages hold the page descriptors.
 */
#include "events.h"
#include "mm.h"
#include "module.h"

unsigned long mem_size = 16ul << 20;

static struct {
	spinlock_t lock;
	unsigned long managed, free;
	struct list_head free_area[MAX_ORDER];
} zone;

static unsigned long max_pfn;

unsigned long nr_free_pages(void)
{
	return READ_ONCE(zone.free);
}

unsigned long totalram_pages(void)
{
	return zone.managed;
}

static inline void set_buddy(struct page *page, unsigned int order)
{
	page->buddy = 1;
	page->order = order;
	list_add(&page->lru, &zone.free_area[order]);
}

static inline void del_page_from_free_list(struct page *page)
{
	list_del_init(&page->lru);
	page->buddy = 0;
}

/* Split a block of order `high` down to `low` and free the upper halves. */
static void expand(struct page *page, unsigned int low, unsigned int high)
{
	while (high > low) {
		high--;
		set_buddy(page + (1ul << high), high);
	}
}

static struct page *__rmqueue_smallest(unsigned int order)
{
	for (unsigned int o = order; o < MAX_ORDER; o++) {
		struct page *page;

		if (list_empty(&zone.free_area[o]))
			continue;
		page = list_first_entry(&zone.free_area[o], struct page, lru);
		del_page_from_free_list(page);
		expand(page, order, o);
		page->order = order;
		return page;
	}
	return NULL;
}

static struct page *rmqueue(unsigned int order)
{
	struct page *page;
	unsigned long flags;

	spin_lock_irqsave(&zone.lock, flags);
	page = __rmqueue_smallest(order);
	if (page)
		zone.free -= 1ul << order;
	spin_unlock_irqrestore(&zone.lock, flags);
	return page;
}

static void prep_new_page(struct page *page, unsigned int order, gfp_t gfp)
{
	page->refcount = 1;
	page->slab_cache = NULL;
	if (gfp & __GFP_ZERO)
		memset(page_address(page), 0, PAGE_SIZE << order);
}

static struct page *get_page_from_freelist(gfp_t gfp, unsigned int order)
{
	struct page *page = rmqueue(order);

	if (page)
		prep_new_page(page, order, gfp);
	return page;
}

/* Out of memory: make the caches free their empty slabs, once. */
static struct page *__alloc_pages_slowpath(gfp_t gfp, unsigned int order)
{
	if (!kmem_cache_shrink_all())
		return NULL;
	return get_page_from_freelist(gfp, order);
}

struct page *__alloc_pages(gfp_t gfp, unsigned int order)
{
	struct page *page;

	if (order >= MAX_ORDER)
		return NULL;
	page = get_page_from_freelist(gfp, order);
	if (unlikely(!page))
		page = __alloc_pages_slowpath(gfp, order);
	event_mm_page_alloc(page, order, gfp);
	return page;
}
EXPORT_SYMBOL(__alloc_pages);

/* Merge a freed block with its buddy while the buddy is free and of equal size. */
static void __free_one_page(struct page *page, unsigned int order)
{
	unsigned long pfn = page_to_pfn(page);

	while (order < MAX_ORDER - 1) {
		unsigned long buddy_pfn = pfn ^ (1ul << order);
		struct page *buddy = pfn_to_page(buddy_pfn);

		if (buddy_pfn + (1ul << order) > max_pfn || !buddy->buddy || buddy->order != order)
			break;
		del_page_from_free_list(buddy);
		pfn &= buddy_pfn;
		order++;
	}
	set_buddy(pfn_to_page(pfn), order);
}

static void free_pages_ok(struct page *page, unsigned int order)
{
	unsigned long flags;

	spin_lock_irqsave(&zone.lock, flags);
	__free_one_page(page, order);
	zone.free += 1ul << order;
	spin_unlock_irqrestore(&zone.lock, flags);
}

void __free_pages(struct page *page, unsigned int order)
{
	BUG_ON(page->buddy || page->refcount != 1);
	page->refcount = 0;
	event_mm_page_free(page, order);
	free_pages_ok(page, order);
}
EXPORT_SYMBOL(__free_pages);

unsigned long __get_free_pages(gfp_t gfp, unsigned int order)
{
	struct page *page = __alloc_pages(gfp, order);

	return page ? (unsigned long)page_address(page) : 0;
}
EXPORT_SYMBOL(__get_free_pages);

unsigned long get_zeroed_page(gfp_t gfp)
{
	return __get_free_pages(gfp | __GFP_ZERO, 0);
}
EXPORT_SYMBOL(get_zeroed_page);

void free_pages(unsigned long addr, unsigned int order)
{
	if (addr)
		__free_pages(virt_to_page((void *)addr), order);
}
EXPORT_SYMBOL(free_pages);

static void memblock_free_pages(unsigned long pfn, unsigned long end)
{
	while (pfn < end) {
		unsigned int order = MAX_ORDER - 1;

		while ((pfn & ((1ul << order) - 1)) || pfn + (1ul << order) > end)
			order--;
		set_buddy(pfn_to_page(pfn), order);
		zone.free += 1ul << order;
		pfn += 1ul << order;
	}
}

static void free_area_init(void)
{
	for (int o = 0; o < MAX_ORDER; o++)
		INIT_LIST_HEAD(&zone.free_area[o]);
}

void mem_init(void)
{
	unsigned long reserved;

	max_pfn = mem_size >> PAGE_SHIFT;
	reserved = ALIGN(max_pfn * sizeof(struct page), PAGE_SIZE) >> PAGE_SHIFT;
	memset(mem_map, 0, reserved << PAGE_SHIFT);
	free_area_init();
	memblock_free_pages(reserved, max_pfn);
	zone.managed = zone.free;
	printk("Memory: %luK/%luK available", zone.free << 2, mem_size >> 10);
}
