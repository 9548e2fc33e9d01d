"""arm64 ports, by how the compiler makes their call sites; what they share lies here."""
