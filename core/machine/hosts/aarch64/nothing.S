// void nothing(uc_engine *uc, uint64_t address, uint32_t size, void *)
//
// Called by the engine before instructions; core/machine/longblocks.py says why.

nothing:
	ret
