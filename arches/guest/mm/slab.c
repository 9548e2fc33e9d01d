// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Caches of equal-sized objects. Modelled on mm/slub.c: each slab
 * chains its free objects through their first word, each cache lists the slabs
 * that have one.
 */
#include "events.h"
#include "fs.h"
#include "mm.h"
#include "module.h"

#define SLAB_ALIGN 16
#define KMALLOC_SHIFT_LOW 5
#define KMALLOC_SHIFT_HIGH 12
#define KMALLOC_CACHES (KMALLOC_SHIFT_HIGH - KMALLOC_SHIFT_LOW + 1)

static LIST_HEAD(slab_caches);
static DEFINE_SPINLOCK(slab_lock);
static struct kmem_cache kmem_cache_boot; /* the cache of caches */
static struct kmem_cache *kmalloc_caches[KMALLOC_CACHES];

static inline void setup_object(struct page *slab, char *object)
{
	*(void **)object = slab->freelist;
	slab->freelist = object;
}

static struct page *allocate_slab(struct kmem_cache *s, gfp_t gfp)
{
	struct page *slab = __alloc_pages(gfp & ~__GFP_ZERO, s->order);
	char *start, *p;

	if (!slab)
		return NULL;
	slab->slab_cache = s;
	slab->freelist = NULL;
	slab->inuse = 0;
	start = page_address(slab);
	for (p = start; p + s->size <= start + (PAGE_SIZE << s->order); p += s->size)
		setup_object(slab, p);
	for (unsigned int i = 1; i < 1u << s->order; i++) {
		slab[i].slab_cache = s;
		slab[i].freelist = slab;
	}
	return slab;
}

static struct page *new_slab(struct kmem_cache *s, gfp_t gfp)
{
	return allocate_slab(s, gfp);
}

static void discard_slab(struct kmem_cache *s, struct page *slab)
{
	for (unsigned int i = 0; i < 1u << s->order; i++)
		slab[i].slab_cache = NULL;
	__free_pages(slab, s->order);
}

static inline void *get_freelist(struct kmem_cache *s, struct page *slab)
{
	void **object = slab->freelist;

	slab->freelist = *object;
	slab->inuse++;
	if (!slab->freelist)
		list_del_init(&slab->lru);
	s->nr_objects++;
	return object;
}

/* No partial slab: allocate one without the lock, then check again. */
static void *___slab_alloc(struct kmem_cache *s, gfp_t gfp)
{
	struct page *slab = new_slab(s, gfp);
	unsigned long flags;
	void *object = NULL;

	spin_lock_irqsave(&s->lock, flags);
	if (slab) {
		list_add(&slab->lru, &s->partial);
		s->nr_slabs++;
	}
	if (!list_empty(&s->partial))
		object = get_freelist(s, list_first_entry(&s->partial, struct page, lru));
	spin_unlock_irqrestore(&s->lock, flags);
	return object;
}

static void *slab_alloc_node(struct kmem_cache *s, gfp_t gfp)
{
	void *object = NULL;
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	if (!list_empty(&s->partial))
		object = get_freelist(s, list_first_entry(&s->partial, struct page, lru));
	spin_unlock_irqrestore(&s->lock, flags);
	return object ? object : ___slab_alloc(s, gfp);
}

static inline void *slab_alloc(struct kmem_cache *s, gfp_t gfp)
{
	void *object = slab_alloc_node(s, gfp);

	if (object && (gfp & __GFP_ZERO))
		memset(object, 0, s->object_size);
	return object;
}

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp)
{
	void *object = slab_alloc(s, gfp);

	event_kmem_cache_alloc(RET_IP, object, s, gfp);
	return object;
}
EXPORT_SYMBOL(kmem_cache_alloc);

static inline struct page *virt_to_slab(const void *object)
{
	struct page *page = virt_to_page(object);

	/* A later page of a slab points back to the first. */
	if (page->slab_cache && !page->refcount)
		page = page->freelist;
	return page;
}

static void __slab_free(struct kmem_cache *s, struct page *slab, void *object)
{
	struct page *empty = NULL;
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	if (!slab->freelist)
		list_add(&slab->lru, &s->partial);
	setup_object(slab, object);
	s->nr_objects--;
	if (--slab->inuse == 0 && slab->lru.next != slab->lru.prev) {
		list_del_init(&slab->lru); /* keep one empty slab */
		s->nr_slabs--;
		empty = slab;
	}
	spin_unlock_irqrestore(&s->lock, flags);
	if (empty)
		discard_slab(s, empty);
}

void kmem_cache_free(struct kmem_cache *s, void *object)
{
	struct page *slab = virt_to_slab(object);

	BUG_ON(slab->slab_cache != s);
	event_kmem_cache_free(RET_IP, object, s);
	__slab_free(s, slab, object);
}
EXPORT_SYMBOL(kmem_cache_free);

static void init_cache(struct kmem_cache *s, const char *name, unsigned int size)
{
	s->name = name;
	s->object_size = size;
	s->size = ALIGN(size, SLAB_ALIGN);
	s->order = s->size > 1024 ? 2 : 0;
	spin_lock_init(&s->lock);
	INIT_LIST_HEAD(&s->partial);
	s->nr_slabs = s->nr_objects = 0;
	_raw_spin_lock(&slab_lock);
	list_add_tail(&s->list, &slab_caches);
	_raw_spin_unlock(&slab_lock);
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size)
{
	struct kmem_cache *s = kmem_cache_alloc(&kmem_cache_boot, GFP_KERNEL);

	if (s)
		init_cache(s, name, size);
	return s;
}
EXPORT_SYMBOL(kmem_cache_create);

static unsigned long __kmem_cache_shrink(struct kmem_cache *s)
{
	struct page *slab, *next;
	unsigned long freed = 0, flags;
	LIST_HEAD(empty);

	spin_lock_irqsave(&s->lock, flags);
	list_for_each_entry_safe(slab, next, &s->partial, lru)
		if (!slab->inuse) {
			list_del_init(&slab->lru);
			list_add(&slab->lru, &empty);
			s->nr_slabs--;
		}
	spin_unlock_irqrestore(&s->lock, flags);
	while (!list_empty(&empty)) {
		slab = list_first_entry(&empty, struct page, lru);
		list_del_init(&slab->lru);
		discard_slab(s, slab);
		freed += 1ul << s->order;
	}
	return freed;
}

/* Free empty slabs and return the number of pages freed. */
unsigned long kmem_cache_shrink_all(void)
{
	struct kmem_cache *s;
	unsigned long freed = 0;

	_raw_spin_lock(&slab_lock);
	list_for_each_entry(s, &slab_caches, list)
		freed += __kmem_cache_shrink(s);
	_raw_spin_unlock(&slab_lock);
	return freed;
}

void kmem_cache_destroy(struct kmem_cache *s)
{
	_raw_spin_lock(&slab_lock);
	list_del_init(&s->list);
	_raw_spin_unlock(&slab_lock);
	__kmem_cache_shrink(s);
	if (s->nr_objects)
		printk("kmem_cache_destroy %s: %lu objects remain", s->name, s->nr_objects);
	kmem_cache_free(&kmem_cache_boot, s);
}
EXPORT_SYMBOL(kmem_cache_destroy);

unsigned long slab_objects(void)
{
	struct kmem_cache *s;
	unsigned long n = 0;

	_raw_spin_lock(&slab_lock);
	list_for_each_entry(s, &slab_caches, list)
		n += s->nr_objects;
	_raw_spin_unlock(&slab_lock);
	return n;
}

static void name_show(struct seq_file *m, const struct kmem_cache *s)
{
	seq_printf(m, "%-17s", s->name);
}

/* /proc/slabinfo */
int slab_show(struct seq_file *m)
{
	struct kmem_cache *s;

	seq_printf(m, "# name            <objects> <objsize> <slabs>\n");
	_raw_spin_lock(&slab_lock);
	list_for_each_entry(s, &slab_caches, list) {
		name_show(m, s);
		seq_printf(m, " %8lu %8u %6lu\n", s->nr_objects, s->size, s->nr_slabs);
	}
	_raw_spin_unlock(&slab_lock);
	return 0;
}

static struct kmem_cache *kmalloc_slab(size_t size)
{
	int i = 0;

	while (i < KMALLOC_CACHES && (1ul << (i + KMALLOC_SHIFT_LOW)) < size)
		i++;
	return i < KMALLOC_CACHES ? kmalloc_caches[i] : NULL;
}

void *__kmalloc(size_t size, gfp_t gfp)
{
	struct kmem_cache *s = kmalloc_slab(size);

	void *object = s ? slab_alloc(s, gfp) : NULL;

	event_kmalloc(RET_IP, object, size, s ? s->size : 0, gfp);
	return object;
}
EXPORT_SYMBOL(__kmalloc);

void kfree(const void *object)
{
	struct page *slab;

	event_kfree(RET_IP, object);
	if (!object)
		return;
	slab = virt_to_slab(object);
	__slab_free(slab->slab_cache, slab, (void *)object);
}
EXPORT_SYMBOL(kfree);

static void create_kmalloc_caches(void)
{
	static const char *const names[KMALLOC_CACHES] = {
		"kmalloc-32", "kmalloc-64", "kmalloc-128", "kmalloc-256",
		"kmalloc-512", "kmalloc-1k", "kmalloc-2k", "kmalloc-4k",
	};

	for (int i = 0; i < KMALLOC_CACHES; i++)
		kmalloc_caches[i] = kmem_cache_create(names[i], 1u << (i + KMALLOC_SHIFT_LOW));
}

void kmem_cache_init(void)
{
	init_cache(&kmem_cache_boot, "kmem_cache", sizeof(struct kmem_cache));
	create_kmalloc_caches();
}
