"""Names of a package that is loaded when a program takes the first of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def of_api(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are those of its module `api`.

    Each process imports the package; a worker and its fork server take no name of it, and do
    without what programs need to compose a job, and drivers to run it. No module of the package has
    one of the names: Python would put it in the place of the object.
    """

    def get(name: str) -> Any:
        """A module, or the object of this name, which is then a variable of the package."""
        module = sys.modules[package]
        if name == "__all__" or not name.startswith("_"):  # others are what Python itself asks for
            if find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
            api = import_module(f"{package}.api")
            if name == "__all__" or name in api.__all__:
                setattr(module, name, getattr(api, name))
                return getattr(module, name)
        message = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=module)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *get("__all__")})

    return get, names
