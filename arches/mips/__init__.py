"""What the MIPS ports share: instructions, call sites, relocations, verbs."""
