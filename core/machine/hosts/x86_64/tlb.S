// bool tlb(uc_engine *uc, uint64_t vaddr, uc_mem_type type, uc_tlb_entry *entry, void *)
//
// Called by the engine when an address is not in its TLB; core/machine/tlb.py says why.
// System V ABI: vaddr in rsi, type in edx, entry in rcx; rax is free to use.

tlb:
	mov	[rcx], rsi
	mov	eax, 3
	cmp	edx, 0x12
	jne	data
	mov	eax, 5
data:
	mov	dword ptr [rcx + 8], eax
	mov	eax, 1
	ret
