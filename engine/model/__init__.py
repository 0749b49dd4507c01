"""Models: large values as one blob of bytes, and how a program reads them in place.

`pack` lays out a user's value; a `Descriptor` is the small record that announces it; a `Model` is
what arrives. Nothing here moves bytes between processes.
"""

from engine.model.descriptor import Descriptor, Via
from engine.model.landing import MemoryLanding
from engine.model.layout import ALIGNMENT, File, Kind, Layout
from engine.model.model import Fetched, Model
from engine.model.pack import Landing, Package, Part, pack

__all__ = [
    "ALIGNMENT",
    "Descriptor",
    "Fetched",
    "File",
    "Kind",
    "Landing",
    "Layout",
    "MemoryLanding",
    "Model",
    "Package",
    "Part",
    "Via",
    "pack",
]
