"""Kernel and modules in a Debian package: an `ar` archive with a compressed tar archive in it.

The archives are walked here, header by header, instead of by `tarfile`: that keeps names and
attributes of any size in memory, and a package is untrusted.

Sources: deb(5), ar(5), POSIX `pax`, section "ustar Interchange Format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .compression import CorruptError, format_of

MAGIC = b"!<arch>\n"

_BLOCK = 512

_KERNEL = re.compile(rb"(?:^|/)(?:boot|lib/modules/[^/]+)/(?:vmlinu[xz]|Image)[^/]*$")
"""Paths of kernels in packages."""

_MODULE = re.compile(rb"(?:^|/)lib/modules/[^/]+/(?:.*/)?([^/]+)\.ko(?:\.[a-z0-9]+)?$")
"""Paths of modules, with their names."""

MAX_SCANNED = 4 << 30
"""Limit for the unpacked bytes that are searched."""


def kernel_in(package: memoryview, limit: int) -> tuple[str, bytearray]:
    """Return path and content of the kernel in `package`.

    Raises `CorruptError` if the package has no kernel, if the kernel has more than `limit`
    bytes, or if the package is damaged, and `MissingError` if it cannot be unpacked here.
    """
    for name, size, content in _files(package):
        if size and _KERNEL.search(name):
            if size > limit:
                raise CorruptError(f"its kernel has {size:#x} bytes; the limit is {limit:#x}")
            return name.decode("utf-8", "replace").removeprefix("./"), content()
    raise CorruptError(
        "there is no kernel in the package: Debian's is in linux-image-*, or in linux-binary-*"
    )


def modules_in(
    package: memoryview, limit: int
) -> Iterator[tuple[str, str, Callable[[], bytearray]]]:
    """Yield the name, file name and a reader of the content of each module in `package`.

    Call the reader before taking the next module. Modules of more than `limit` bytes are left out.
    Raises as `kernel_in`.
    """
    for path, size, content in _files(package):
        found = _MODULE.search(path)
        if found is not None and 0 < size <= limit:
            file = path.rpartition(b"/")[2]
            yield found[1].decode("ascii", "replace"), file.decode("ascii", "replace"), content


def _members(package: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield name and data of each member of an `ar` archive."""
    at = len(MAGIC)
    while at < len(package):
        header = bytes(package[at : at + 60])
        size = header[48:58].strip()
        if len(header) < 60 or header[58:] != b"`\n" or not size.isdigit():
            raise CorruptError(f"the package has no valid member at {at:#x}")
        end = at + 60 + int(size)
        if end > len(package):
            raise CorruptError(
                f"the package is truncated: a member ends at {end:#x}, the file at "
                f"{len(package):#x}"
            )
        yield header[:16].decode("ascii", "replace").strip().rstrip("/"), package[at + 60 : end]
        at = end + end % 2


def _pieces(data: memoryview) -> Iterator[bytes]:
    """Yield the tar archive in pieces; it may be stored without compression."""
    format = format_of(data)
    if format is not None:
        yield from format.stream(data)
    else:
        yield from (bytes(data[at : at + (1 << 20)]) for at in range(0, len(data), 1 << 20))


class _Reader:
    """Reads forward in a stream of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._at = 0
        self._total = 0

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes, in parts. Raises `CorruptError` if there are fewer."""
        while size:
            if self._at == len(self._piece):
                self._piece, self._at = next(self._pieces, b""), 0
                self._total += len(self._piece)
                if not self._piece:
                    raise CorruptError("the package is truncated")
                if self._total > MAX_SCANNED:
                    raise CorruptError(f"it is not in the first {MAX_SCANNED:#x} bytes")
            part = self._piece[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            yield part


def _files(package: memoryview) -> Iterator[tuple[bytes, int, Callable[[], bytearray]]]:
    """Yield the path, size in bytes and a reader of each file, valid until the next one."""
    for name, data in _members(package):
        if name.startswith("data.tar"):
            yield from _in_tar(_Reader(_pieces(data)))
            return
    raise CorruptError("the package has no data.tar")


def _in_tar(reader: _Reader) -> Iterator[tuple[bytes, int, Callable[[], bytearray]]]:
    """Like `_files`, for a tar archive."""
    while any(header := b"".join(reader.parts(_BLOCK))):
        try:
            size = int(header[124:136].rstrip(b"\0 ") or b"0", 8)
        except ValueError:
            raise CorruptError("the package has an invalid tar header") from None
        prefix = header[345:500].partition(b"\0")[0] if header[257:262] == b"ustar" else b""
        name = b"/".join(filter(None, (prefix, header[:100].partition(b"\0")[0])))
        left = -(-size // _BLOCK) * _BLOCK
        if header[156:157] in b"0\0":
            body = _Body(reader, size)
            yield name, size, body.content
            left -= body.taken
        for _ in reader.parts(left):
            pass


class _Body:
    """The content of a file, while the reader is at its start."""

    def __init__(self, reader: _Reader, size: int) -> None:
        self._reader = reader
        self._size = size
        self.taken = 0
        """Bytes that were read."""

    def content(self) -> bytearray:
        """Read and return the content. Raises `CorruptError` if the archive ends too early."""
        content = bytearray()
        for part in self._reader.parts(self._size):
            content += part
        self.taken = self._size
        return content
