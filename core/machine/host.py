"""The machine as its parts see it, so that each of them can be read without the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..arch import Port
from ..errors import GuestOops
from .memory import Memory
from .scheduler import Scheduler
from .services import Services
from .symbols import Symbols
from .vcpu import Vcpu


class Host(Protocol):
    """The machine that a part belongs to."""

    @property
    def port(self) -> Port: ...

    @property
    def memory(self) -> Memory: ...

    @property
    def vcpus(self) -> Sequence[Vcpu]: ...

    @property
    def symbols(self) -> Symbols: ...

    @property
    def services(self) -> Services: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def oopses(self) -> Sequence[GuestOops]: ...
