"""The committed images of each port, and their build parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
GUEST = ROOT / "arches" / "guest"


@dataclass(frozen=True)
class Images:
    """The images of one port."""

    arch: str
    """Name in `--arch`."""
    port: str
    """Name in the Makefile."""
    folder: str
    tools: str
    """Prefix of the compiler's name."""
    machine: str
    """The compiler's target."""

    @property
    def path(self) -> Path:
        return ROOT / "arches" / self.folder / "images"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())

    def elf(self, name: str = "vmlinux.elf") -> ELFFile:
        return ELFFile.load_from_path(str(self.path / name))


PORTS = [
    Images("x86_64", "x86_64", "x86/x86_64", "", "x86_64-linux"),
    Images("i386", "i386", "x86/i386", "i686-linux-gnu-", "i686-linux"),
    Images("x86_64-2008", "x86_64-2008", "x86/x86_64_2008", "", "x86_64-linux"),
    Images("ppc64", "ppc64", "powerpc/ppc64", "powerpc64-linux-gnu-", "powerpc64-linux"),
    Images("ppc32", "ppc32", "powerpc/ppc32", "powerpc-linux-gnu-", "powerpc-linux"),
    Images("mips", "mips", "mips/mips32", "mips-linux-gnu-", "mips-linux"),
    Images("mipsel", "mipsel", "mips/mipsel", "mipsel-linux-gnu-", "mipsel-linux"),
    Images("mips64", "mips64", "mips/mips64", "mips64-linux-gnuabi64-", "mips64-linux"),
    Images("arm64", "arm64", "arm64/arm64", "aarch64-linux-gnu-", "aarch64-linux"),
    Images("arm64-mcount", "arm64-mcount", "arm64/mcount", "aarch64-linux-gnu-", "aarch64-linux"),
]
