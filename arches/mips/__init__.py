"""The code that the MIPS ports share: instructions, call sites, relocations, verbs."""
