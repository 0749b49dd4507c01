from collections.abc import Callable
from typing import Any

import pytest

from engine.model import Descriptor, MemoryLanding, Model, Package


def arrived(package: Package) -> Model:
    """The package as a receiving task gets it, its descriptor encoded and decoded on the way."""
    landing = MemoryLanding(package.layout.size)
    package.write_to(landing)
    blob = landing.finish()
    sent = Descriptor("channels", 1, package.name, package.layout, origin=0, number=1)
    return Model(Descriptor.decode(sent.encode()), lambda timeout: blob)


@pytest.fixture(name="arrived")
def arrived_fixture() -> Callable[[Package], Any]:
    return arrived
