"""The files of events/, and their data in the guest."""

from .eventfile import EventFile, EventFiles
from .files import files
from .kernel import KernelEvents

__all__ = ["EventFile", "EventFiles", "KernelEvents", "files"]
