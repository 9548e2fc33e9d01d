// bool slots(uc_engine *uc, uint64_t vaddr, uc_mem_type type, uc_tlb_entry *entry,
//            struct mark *mark)
//
// As `tlb`, and removes the mark of a delay slot after an access to data;
// core/machine/delayslots.py says why, and has `mark`. AAPCS64: uc in x0, vaddr in x1,
// type in w2, entry in x3, mark in x4; x5 to x7 are free to use.

slots:
	str	x1, [x3]
	cmp	w2, #0x12
	b.eq	fetch
	mov	w5, #3
	str	w5, [x3, #8]
	stp	x29, x30, [sp, #-0x20]!
	mov	x29, sp
	stp	x19, x20, [sp, #0x10]
	mov	x19, x0
	mov	x20, x4
	ldr	x1, [x20, #0x10]
	ldr	x5, [x20]
	blr	x5
	ldr	x5, [x20, #0x18]
	ldr	w6, [x20, #0x20]
	ldr	w7, [x5]
	tst	w7, w6
	b.eq	done
	bic	w7, w7, w6
	str	w7, [x5]
	mov	x0, x19
	ldr	x1, [x20, #0x10]
	ldr	x5, [x20, #0x8]
	blr	x5
done:
	ldp	x19, x20, [sp, #0x10]
	ldp	x29, x30, [sp], #0x20
	mov	w0, #1
	ret
fetch:
	mov	w5, #5
	str	w5, [x3, #8]
	mov	w0, #1
	ret
