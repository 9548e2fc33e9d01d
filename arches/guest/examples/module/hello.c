// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module for the teaching kernel: load it with `insmod hello.ko`, call it with
 * `call hello_greet 3`, unload it with `rmmod hello`.
 */
#include "mm.h"
#include "module.h"

static int *greeted;

static void hello_count(int n)
{
	*greeted += n;
}

int hello_greet(int n)
{
	for (int i = 0; i < n; i++)
		hello_count(1);
	printk("hello: %d so far", *greeted);
	return *greeted;
}
EXPORT_SYMBOL(hello_greet);

static int hello_init(void)
{
	greeted = kzalloc(sizeof(*greeted), GFP_KERNEL);
	return greeted ? 0 : -ENOMEM;
}

static void hello_exit(void)
{
	kfree(greeted);
}

MODULE_LICENSE("GPL");
DEFINE_MODULE("hello", "", hello_init, hello_exit);
