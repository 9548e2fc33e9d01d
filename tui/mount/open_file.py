"""A file of tracefs as a client has it open: bytes, pieces, and close(2).

The tree reads and writes whole texts. A client reads in pieces at offsets, and each of its
write(2) calls arrives separately. Source: seq_read_iter() in fs/seq_file.c, tracing_read_pipe()
in kernel/trace/trace.c.
"""

from __future__ import annotations

from ...core.tracefs.tree import File


class OpenFile:
    """One open file description; not safe for threads."""

    def __init__(self, file: File, *, write: bool, truncate: bool) -> None:
        """Open `file`. Raises what `File.open` raises."""
        self._file = file
        self._handle = file.open(write=write, truncate=truncate)
        self.written = truncate or file.owner is not None or self._handle.acts
        """Whether something may take effect when it is closed."""
        self._content: bytes | None = None
        self._read_before = False

    @property
    def consumes(self) -> bool:
        """Whether a read consumes what it returns; offsets are then meaningless."""
        return self._file.consumes

    def read(self, size: int, offset: int) -> bytes | None:
        """Return at most `size` bytes; b"" at the end; None if a pipe has nothing yet.

        The content is that of the moment at which a client reads from offset 0, so that its
        pieces fit together.
        """
        if self.consumes:
            return self._take(size)
        if self._content is None or offset == 0:
            self._content = self._handle.read().encode("utf-8", "surrogateescape")
        return self._content[offset : offset + size]

    def _take(self, size: int) -> bytes | None:
        if not self._content:
            self._content = self._handle.read().encode("utf-8", "surrogateescape")
        if not self._content:
            return b"" if self._file.ended(self._read_before) else None
        self._read_before = True
        taken, self._content = self._content[:size], self._content[size:]
        return taken

    @property
    def in_pages(self) -> bool:
        """Whether splice(2) can move what it has."""
        return self._file.in_pages

    def splice(self, size: int) -> bytes | None:
        """Return a whole page of at most `size` bytes for splice(2); None if there is none yet."""
        if not self._content and not self._file.whole_page:
            return None
        return self._take(size)

    @property
    def readable(self) -> bool:
        """Whether `read` would not have to wait."""
        return bool(self._content) or self._file.ready or self._file.ended(self._read_before)

    def write(self, data: bytes) -> int:
        """Write `data` as one write(2); return the number of bytes. The offset has no meaning."""
        self.written = True
        self._handle.write(data.decode("utf-8", "surrogateescape"))
        return len(data)

    def close(self) -> None:
        """Close the file. Raises what `Handle.close` raises."""
        self._handle.close()
