"""All kinds of input, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .chains import Chains
from .images import Kernel, Module
from .kind import Kind
from .payloads import Payload
from .texts import Keymap, Lesson, SavedSession, Settings, TourProgress
from .typed import Assembly, Keys, Script
from .web import Frames

_ALL: tuple[Kind, ...] = (
    *(Kernel(), Payload(), Module(), Script(), Chains(), Assembly(), Keys()),
    *(SavedSession(), TourProgress(), Settings(), Keymap(), Lesson(), Frames()),
)

KINDS: Mapping[str, Kind] = MappingProxyType({each.name: each for each in _ALL})
