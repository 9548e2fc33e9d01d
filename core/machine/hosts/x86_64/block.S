// swap: bswap rax
//
// void block(uc_engine *uc, uint64_t address, uint32_t size, struct control *control)
//
// Called by the engine before each block of guest code; core/machine/clock.py draws
// `control`. System V ABI: uc in rdi, address in rsi, size in edx, control in
// rcx; rax, rdx and r8 are free to use. The stop is a tail call, so uc is still
// where uc_emu_stop(uc) expects it, and the stack is as the engine left it.

block:
	mov	rax, [rcx]
	cmp	rax, [rcx + 0x8]
	jae	ended
count:
	cmp	dword ptr [rcx + 0x2000], 0
	jne	stop
	mov	edx, edx
	mov	[rcx + 0x18], rsi
	mov	[rcx + 0x20], rdx
	add	rax, rdx
	mov	[rcx], rax
	{swap}
	mov	[rcx + 0x1000], rax
	mov	eax, esi
	and	eax, 0x3ffff
	mov	byte ptr [rcx + rax + 0x3000], 0x1
	ret
ended:
	cmp	rax, [rcx + 0x28]
	jae	stop
	cmp	dword ptr [rcx + 0x2000], 0
	jne	stop
	cmp	qword ptr [rcx + 0x40], 0
	je	whole
	mov	r8, [rcx + 0x18]
	add	r8, [rcx + 0x20]
	cmp	r8, rsi
	jne	whole
	test	esi, 0xfff
	je	stop
	cmp	dword ptr [rcx + 0x20], 0x1e0
	jae	stop
whole:
	mov	r8, [rcx + 0x38]
	cmp	rax, r8
	jae	masked
	add	rax, [rcx + 0x30]
	cmp	rax, r8
	cmova	rax, r8
follow:
	mov	[rcx + 0x8], rax
	{swap}
	mov	[rcx + 0x1008], rax
	mov	rax, [rcx]
	jmp	count
masked:
	cmp	dword ptr [rcx + 0x200c], 0
	je	stop
	add	rax, [rcx + 0x30]
	jmp	follow
stop:
	jmp	[rcx + 0x10]
