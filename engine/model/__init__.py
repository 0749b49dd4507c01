"""Models: large values as one blob of bytes, and how a program reads them in place.

`pack` lays out what a user publishes; a `Descriptor` is the small record that tells of it; a
`Model` is what arrives. Nothing here moves bytes between processes.
"""

from engine.model.descriptor import Descriptor, Via
from engine.model.landing import MemoryLanding
from engine.model.layout import ALIGNMENT, File, Kind, Layout
from engine.model.model import Fetched, Model
from engine.model.pack import Landing, Package, Part, generated, pack

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
    "generated",
    "pack",
]
