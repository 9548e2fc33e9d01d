// bool slots(uc_engine *uc, uint64_t vaddr, uc_mem_type type, uc_tlb_entry *entry,
//            struct mark *mark)
//
// As `tlb`, and removes the mark of a delay slot after an access to data;
// core/machine/delayslots.py says why, and has `mark`. System V ABI: uc in rdi, vaddr
// in rsi, type in edx, entry in rcx, mark in r8. rsp is aligned at each call.

slots:
	mov	[rcx], rsi
	cmp	edx, 0x12
	je	fetch
	mov	dword ptr [rcx + 8], 3
	push	rbx
	push	rbp
	sub	rsp, 8
	mov	rbx, rdi
	mov	rbp, r8
	mov	rsi, [rbp + 0x10]
	call	[rbp]
	mov	rax, [rbp + 0x18]
	mov	edx, [rbp + 0x20]
	test	dword ptr [rax], edx
	je	done
	not	edx
	and	dword ptr [rax], edx
	mov	rdi, rbx
	mov	rsi, [rbp + 0x10]
	call	[rbp + 0x8]
done:
	add	rsp, 8
	pop	rbp
	pop	rbx
	mov	eax, 1
	ret
fetch:
	mov	dword ptr [rcx + 8], 5
	mov	eax, 1
	ret
