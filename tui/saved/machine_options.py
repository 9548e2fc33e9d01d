"""The options of a command line that describe a machine, which is opened on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ... import arches
from ...core.errors import UsageError

if TYPE_CHECKING:
    from ...core.session.session import Session


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """An architecture and the options of its machine; calling this opens the machine.

    Nothing is loaded before that. `kernel` is the path of an image, or None for the
    port's own kernel. If `arch` is None, it is that of the image.
    """

    arch: str | None
    kernel: str | None = None
    modules: tuple[str, ...] = ()
    cpus: int = 2
    patch: str | None = None
    nop: str | None = None
    discovery: str | None = None
    stop_at: str | None = None
    patch_from: str = field(default="", compare=False)
    """`FILE:LINE: NAME: ` if `patch` comes from a file: the prefix of errors about it."""

    def with_arch(self) -> MachineOptions:
        """Return these options with the architecture of the image, which is read.

        Raises `UsageError` if `arch` is a different one, or if it has no port.
        """
        return replace(self, arch=arches.build(self.arch, self.kernel)[0])

    def __call__(self, step: Callable[[], object] = lambda: None) -> Session:
        """Open the machine, calling `step` as `Session.open` does.

        Raises `UsageError`, and what `Session.open` raises.
        """
        from ...core.session.session import MachineSpec, Session

        port = arches.load(arches.build(self.arch, self.kernel)[0])
        known = port.facts.patch_methods
        if self.patch_from and self.patch not in (None, *known):
            raise UsageError(
                f"{self.patch_from}unknown patch method {self.patch!r} on {port.facts.name} "
                f"(choose from: {', '.join(known)})"
            )
        path = None if self.kernel is None else Path(self.kernel)
        spec = MachineSpec(
            path,
            self.modules,
            self.cpus,
            self.patch,
            self.nop,
            discovery=self.discovery,
            stop_at=self.stop_at,
        )
        return Session.open(port, spec, step)
