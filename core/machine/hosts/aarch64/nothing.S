// keystone: KS_ARCH_ARM64 KS_MODE_LITTLE_ENDIAN
//
// void nothing(uc_engine *uc, uint64_t address, uint32_t size, void *)
//
// Called by the engine before instructions; core/machine/longblocks.py says why.

nothing:
	ret
