// bool tlb(uc_engine *uc, uint64_t vaddr, uc_mem_type type, uc_tlb_entry *entry, void *)
//
// Called by the engine when an address is not in its TLB; core/machine/tlb.py says why.
// AAPCS64: vaddr in x1, type in w2, entry in x3; x5 is free to use.

tlb:
	str	x1, [x3]
	mov	w5, #3
	cmp	w2, #0x12
	b.ne	data
	mov	w5, #5
data:
	str	w5, [x3, #8]
	mov	w0, #1
	ret
