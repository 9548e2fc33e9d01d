/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files, inodes, names and file systems. Modelled on linux/{fs,dcache,fdtable,
 * seq_file,proc_fs}.h. */
#ifndef FS_H
#define FS_H

#include "lock.h"
#include "mm.h"

#define S_IFMT 0170000u
#define S_IFDIR 0040000u
#define S_IFREG 0100000u
#define S_IFIFO 0010000u
#define S_ISDIR(m) (((m) & S_IFMT) == S_IFDIR)

#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_ACCMODE 3
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_APPEND 02000

#define NAME_MAX 23
#define PATH_MAX 128
#define NR_OPEN 16
#define INODE_PAGES 16

struct file;
struct inode;
struct dentry;
struct super_block;

struct file_operations {
	ssize_t (*read)(struct file *file, char *buf, size_t count, loff_t *pos);
	ssize_t (*write)(struct file *file, const char *buf, size_t count, loff_t *pos);
	int (*iterate)(struct file *file, char *buf, size_t count);
	int (*open)(struct inode *inode, struct file *file);
	int (*release)(struct inode *inode, struct file *file);
};

struct inode_operations {
	struct dentry *(*lookup)(struct inode *dir, struct dentry *dentry);
	int (*create)(struct inode *dir, struct dentry *dentry, unsigned int mode);
	int (*mkdir)(struct inode *dir, struct dentry *dentry, unsigned int mode);
	int (*unlink)(struct inode *dir, struct dentry *dentry);
};

struct inode {
	unsigned long i_ino;
	unsigned int i_mode, i_nlink;
	int i_count;
	unsigned long i_size, i_mtime;
	struct super_block *i_sb;
	const struct inode_operations *i_op;
	const struct file_operations *i_fop;
	struct rw_semaphore i_rwsem;
	void *i_private;
	struct page *i_pages[INODE_PAGES]; /* the file's page cache */
};

struct dentry {
	char d_name[NAME_MAX + 1];
	int d_count;
	struct inode *d_inode;
	struct dentry *d_parent;
	struct dentry *d_mounted; /* root of the file system mounted here */
	struct dentry *d_covers;  /* only for such a root: the name it is mounted on */
	struct list_head d_subdirs, d_child;
};

struct file_system_type {
	const char *name;
	int (*fill_super)(struct super_block *sb);
	int (*kill_sb)(struct super_block *sb); /* -errno while in use; NULL if never in use */
	struct list_head list;
};

struct super_block {
	struct file_system_type *s_type;
	struct dentry *s_root;
	unsigned long s_next_ino;
};

struct file {
	int f_count;
	unsigned int f_flags;
	loff_t f_pos;
	struct mutex f_pos_lock;
	struct dentry *f_dentry;
	struct inode *f_inode;
	const struct file_operations *f_op;
	void *private_data;
};

struct files_struct {
	int count;
	spinlock_t file_lock;
	struct file *fd[NR_OPEN];
};

struct fs_struct {
	struct dentry *root, *pwd;
};

struct kstat {
	unsigned long ino, size, mtime;
	unsigned int mode, nlink;
};

struct task_struct;

/* fs/dcache.c, fs/inode.c */
void vfs_caches_init(void);
struct dentry *d_alloc(struct dentry *parent, const char *name);
struct dentry *d_alloc_root(struct inode *inode);
struct dentry *d_lookup(struct dentry *parent, const char *name);
void d_instantiate(struct dentry *dentry, struct inode *inode);
void d_delete(struct dentry *dentry);
struct dentry *dget(struct dentry *dentry);
void dput(struct dentry *dentry);
int dcache_readdir(struct file *file, char *buf, size_t count);
struct inode *new_inode(struct super_block *sb);
void iput(struct inode *inode);
void ihold(struct inode *inode);
void truncate_inode_pages(struct inode *inode);
void file_update_time(struct file *file);

/* fs/namei.c, fs/namespace.c */
struct file *do_filp_open(const char *path, unsigned int flags);
struct dentry *kern_path(const char *path);
int vfs_mkdir(struct dentry *dir, const char *name);
int do_mkdirat(const char *path);
int do_unlinkat(const char *path);
int register_filesystem(struct file_system_type *fs);
int do_mount(const char *type, const char *path);
int do_umount(const char *path);
int shrink_dcache_for_umount(struct dentry *root);
int init_special_inode(const char *path, const struct file_operations *fops);
struct dentry *kern_mount(const char *type);

/* fs/open.c, fs/file.c, fs/file_table.c, fs/read_write.c */
int do_sys_openat2(const char *path, unsigned int flags);
int vfs_open(struct dentry *dentry, struct file *file);
int ksys_chdir(const char *path);
int filp_close(struct file *file);
int close_fd(unsigned int fd);
int get_unused_fd_flags(void);
void put_unused_fd(unsigned int fd);
void fd_install(unsigned int fd, struct file *file);
struct file *fget(unsigned int fd);
void fput(struct file *file);
struct file *alloc_empty_file(unsigned int flags);
struct files_struct *dup_fd(struct files_struct *old);
void exit_files(struct task_struct *p);
struct fs_struct *copy_fs_struct(struct fs_struct *old);
void exit_fs(struct task_struct *p);
void files_init(void);
ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos);
ssize_t vfs_write(struct file *file, const char *buf, size_t count, loff_t *pos);
ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos);
ssize_t ksys_read(unsigned int fd, char *buf, size_t count);
ssize_t ksys_write(unsigned int fd, const char *buf, size_t count);
loff_t vfs_llseek(struct file *file, loff_t offset);
int vfs_stat(const char *path, struct kstat *stat);
int iterate_dir(struct file *file, char *buf, size_t count);

/* mm/filemap.c */
ssize_t generic_file_read(struct file *file, char *buf, size_t count, loff_t *pos);
ssize_t generic_file_write(struct file *file, const char *buf, size_t count, loff_t *pos);

/* fs/ramfs.c, fs/pipe.c */
void init_ramfs_fs(void);
int do_pipe2(int fd[2]);
void pipe_init(void);

/* fs/proc.c, fs/seq_file.c */
struct seq_file {
	char *buf;
	size_t size, count;
	int (*show)(struct seq_file *m);
	void *private;
};

void seq_printf(struct seq_file *m, const char *fmt, ...) __printf(2, 3);
int single_open(struct file *file, int (*show)(struct seq_file *), void *data);
ssize_t seq_read(struct file *file, char *buf, size_t size, loff_t *pos);
int single_release(struct inode *inode, struct file *file);

struct proc_ops {
	int (*proc_show)(struct seq_file *m);
	ssize_t (*proc_write)(struct file *file, const char *buf, size_t count);
};

struct proc_dir_entry {
	char name[NAME_MAX + 1];
	const struct proc_ops *ops;
	void *data;
	struct list_head list;
	int in_use;
};

void proc_root_init(void);
struct proc_dir_entry *proc_create(const char *name, const struct proc_ops *ops);
void proc_register_files(void);

/* Shows that have files of their own in /proc: irq/irq.c, mm/slab.c. */
int show_interrupts(struct seq_file *m);
int slab_show(struct seq_file *m);

#endif
