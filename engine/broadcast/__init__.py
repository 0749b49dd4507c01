"""Models from one task to many: three backends behind one store per worker.

`Publish` hands a package to the `ModelStore` of its task and emits the `Descriptor`; a receiving
task that decodes it gets a `Model` of its own store. `use` says which store that is. Importing
this package makes both types known to `engine.record`.
"""

from engine.broadcast.backend import Backend, Publisher, Settings
from engine.broadcast.check import check, check_given_again
from engine.broadcast.current import store_in_use, use
from engine.broadcast.store import ModelStore

__all__ = [
    "Backend",
    "ModelStore",
    "Publisher",
    "Settings",
    "check",
    "check_given_again",
    "store_in_use",
    "use",
]
