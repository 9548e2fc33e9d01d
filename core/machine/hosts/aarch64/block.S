// swap: rev x4, x4
//
// void block(uc_engine *uc, uint64_t address, uint32_t size, struct control *control)
//
// Called by the engine before each block of guest code; core/machine/clock.py draws
// `control`. AAPCS64: uc in x0, address in x1, size in w2, control in x3; x2 and x4
// to x6 are free to use. The stop is a tail call, so uc is still where
// uc_emu_stop(uc) expects it, and the return address is still in x30.

block:
	ldr	x4, [x3]
	ldr	x5, [x3, #0x8]
	cmp	x4, x5
	b.hs	ended
count:
	add	x6, x3, #0x1000
	ldr	w5, [x6, #0x1000]
	cbnz	w5, stop
	mov	w2, w2
	str	x1, [x3, #0x18]
	str	x2, [x3, #0x20]
	add	x4, x4, x2
	str	x4, [x3]
	{swap}
	str	x4, [x6]
	and	x5, x1, #0x3ffff
	add	x5, x5, x3
	add	x5, x5, #0x3, lsl #0xc
	mov	w6, #0x1
	strb	w6, [x5]
	ret
ended:
	ldr	x5, [x3, #0x28]
	cmp	x4, x5
	b.hs	stop
	add	x6, x3, #0x1000
	ldr	w5, [x6, #0x1000]
	cbnz	w5, stop
	ldr	x5, [x3, #0x40]
	cbz	x5, whole
	ldr	x5, [x3, #0x18]
	ldr	x6, [x3, #0x20]
	add	x5, x5, x6
	cmp	x5, x1
	b.ne	whole
	tst	x1, #0xfff
	b.eq	stop
	cmp	x6, #0x1e0
	b.hs	stop
whole:
	ldr	x5, [x3, #0x38]
	cmp	x4, x5
	b.hs	masked
	ldr	x6, [x3, #0x30]
	add	x4, x4, x6
	cmp	x4, x5
	csel	x4, x4, x5, lo
follow:
	add	x6, x3, #0x1000
	str	x4, [x3, #0x8]
	{swap}
	str	x4, [x6, #0x8]
	ldr	x4, [x3]
	b	count
masked:
	add	x6, x3, #0x1000
	ldr	w5, [x6, #0x100c]
	cbz	w5, stop
	ldr	x6, [x3, #0x30]
	add	x4, x4, x6
	b	follow
stop:
	ldr	x5, [x3, #0x10]
	br	x5
