"""Pickles of functions and classes that no other process can import, by value.

It is cloudpickle's pickler with additions: functions with a cache, `cached_property` and
`singledispatch`, and enums of any kind. Classes keep their slots and qualified name, and no
`__init_subclass__` or metaclass runs a second time. Open files are refused; cloudpickle would send
their content.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
import sys
import types
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import cloudpickle
from cloudpickle import cloudpickle as by_value


def dumps(value: object) -> bytes:
    """The value as bytes, for `pickle.loads`."""
    out = io.BytesIO()
    Pickler(out).dump(value)
    return out.getvalue()


class RayReferencePickled(pickle.PicklingError):
    """An object whose references Ray counts would have been pickled without Ray's knowledge."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes functions and classes by value where no other process can import them.

    An ObjectRef of Ray's is refused: a reader of such a pickle would wait for it for ever.
    """

    def reducer_override(self, obj: Any) -> Any:
        """The object's reduction; NotImplemented for types that pickle itself knows."""
        kind = type(obj)
        if kind.__name__ in _OF_RAY and kind.__module__.partition(".")[0] == "ray":
            return self.reduce_of_ray(obj)
        if isinstance(obj, type):
            reduced = super().reducer_override(obj)
            if reduced is NotImplemented or reduced[0] not in _REDUCED:
                return reduced
            return _REDUCED[reduced[0]](obj, *reduced[1:3])
        if isinstance(obj, functools._lru_cache_wrapper):
            return _reduce_cached(obj)
        return super().reducer_override(obj)

    def reduce_of_ray(self, obj: Any) -> Any:
        """The reduction of an ObjectRef or an actor's handle."""
        if type(obj).__name__ == "ActorHandle":
            return NotImplemented  # its owner goes with it
        raise RayReferencePickled(
            f"Ray would not know who has this {type(obj).__name__}",
            "use ray.get before, and send the value",
        )


def _reduce_class(kind: type, made_of: tuple[Any, ...], state: tuple[Any, Any]) -> tuple[Any, ...]:
    metaclass, name, bases, namespace, tracked, _ = made_of
    namespace = {**namespace, "__qualname__": kind.__qualname__}
    if "__slots__" in vars(kind) and NamedTuple not in bases:  # it has its own reduction
        namespace["__slots__"] = kind.__slots__  # type: ignore[attr-defined]
    attributes = {
        name: value
        for name, value in state[0].items()
        if not isinstance(value, types.MemberDescriptorType)  # a slot: the class brings it
    }
    made_of = (metaclass, name, bases, namespace, tracked)
    return _class, made_of, (attributes, state[1]), None, None, by_value._class_setstate


def _class(
    metaclass: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any], tracked: str
) -> type:
    """A class without its attributes; these are set afterwards."""
    known = by_value._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracked)
    if known is None:
        with _silent(bases):
            if _came_by_value(metaclass):
                kinds = types.resolve_bases(bases)
                known = _maker(metaclass).__new__(metaclass, name, kinds, namespace)
            else:
                settings = {"metaclass": metaclass}
                known = types.new_class(name, bases, settings, lambda made: made.update(namespace))
    found: type = by_value._lookup_class_or_track(tracked, known)
    return found


def _reduce_enum(kind: Any, made_of: tuple[Any, ...], _: object) -> tuple[Any, ...]:
    base = next(each for each in kind.__mro__ if not _is_of_python(each))
    members: dict[str, tuple[object, tuple[object, ...]]] = {}
    attributes: dict[str, dict[str, object]] = {}
    for name, member in kind._member_map_.items():
        members[name] = member._value_, _arguments(base, member)
        attributes[name] = {
            key: value for key, value in vars(member).items() if key not in _OF_A_MEMBER
        }
    made_of = (
        type(kind),
        kind.__name__,
        kind.__bases__,
        {"__module__": kind.__module__, "__qualname__": kind.__qualname__},
        made_of[5],
        base,
        members,
        getattr(kind, "_boundary_", None),
    )
    state, slots = by_value._class_getstate(kind)
    state = {
        name: value
        for name, value in state.items()
        if name not in _OF_AN_ENUM and name not in kind._member_map_
    }
    return _enum, made_of, ((state, slots), attributes), None, None, _complete_enum


def _enum(
    metaclass: Any,
    name: str,
    bases: tuple[type, ...],
    namespace: dict[str, Any],
    tracked: str,
    base: Any,
    members: Mapping[str, tuple[object, tuple[object, ...]]],
    boundary: object,
) -> type:
    """An enum with its members, without its other attributes; these are set afterwards."""
    known = by_value._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracked)
    if known is None:
        made_of = list(members.values())

        def new(kind: type, number: int) -> Any:
            value, arguments = made_of[number]
            member = base.__new__(kind, *arguments)
            member._value_ = value
            return member

        settings = {} if boundary is None else {"boundary": boundary}
        maker = _maker(metaclass)
        attributes = maker.__prepare__(name, bases, **settings)
        own = {**namespace, "__new__": new, "__init__": lambda *_: None}
        for attribute, value in (*own.items(), *zip(members, range(len(members)), strict=True)):
            attributes[attribute] = value
        with _silent(bases):
            known = maker.__new__(metaclass, name, bases, attributes, **settings)
        for ours in ("__init__", "__new_member__"):
            type.__delattr__(known, ours)
    found: type = by_value._lookup_class_or_track(tracked, known)
    return found


def _complete_enum(kind: Any, state: tuple[Any, Mapping[str, Mapping[str, object]]]) -> Any:
    attributes, of_members = state
    by_value._class_setstate(kind, attributes)
    for name, values in of_members.items():
        vars(kind._member_map_[name]).update(values)
    return kind


def _arguments(base: Any, member: object) -> tuple[object, ...]:
    """The arguments of `base.__new__` for the member."""
    if base is object:
        return ()
    found: tuple[object, ...]
    if hasattr(base, "__getnewargs__"):
        found = base.__getnewargs__(member)
    else:
        found = base.__reduce__(member)[1]
    return found


def _is_of_python(kind: type) -> bool:
    """Whether a class statement made it; other classes have a layout of their own."""
    return bool(kind.__flags__ & 1 << 9)


def _came_by_value(kind: type) -> bool:
    return kind in by_value._DYNAMIC_CLASS_TRACKER_BY_CLASS


def _maker(metaclass: type) -> Any:
    """The metaclass's own constructor, without the user's code."""
    return next(each for each in metaclass.__mro__ if not _came_by_value(each))


@contextmanager
def _silent(bases: tuple[Any, ...]) -> Iterator[None]:
    """Call no `__init_subclass__` of a class that came by value for a class that is made again."""
    heard = {
        base: vars(base)["__init_subclass__"]
        for kind in types.resolve_bases(bases)
        for base in kind.__mro__
        if _came_by_value(base) and "__init_subclass__" in vars(base)
    }
    for base in heard:
        type.__delattr__(base, "__init_subclass__")
    try:
        yield
    finally:
        for base, hook in heard.items():
            type.__setattr__(base, "__init_subclass__", hook)


def _reduce_cached(function: Any) -> Any:
    found = by_value._lookup_module_and_qualname(function)
    if found is not None and not by_value._is_registered_pickle_by_value(found[0]):
        return NotImplemented
    attributes = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
    return _cached, (function.__wrapped__, function.cache_parameters()), attributes


def _cached(function: Any, parameters: Mapping[str, Any]) -> object:
    """The function with a cache of its own, which is empty."""
    return functools.lru_cache(**parameters)(function)


def _reduce_cached_property(found: Any) -> tuple[Any, ...]:
    # It has a lock before Python 3.12.
    attributes = {name: value for name, value in vars(found).items() if name != "lock"}
    return functools.cached_property, (found.func,), attributes


def _named(name: str) -> Callable[[object], str]:
    """A reducer that gives an object the name that it has in its module."""
    return lambda _: name


def _reduce_file(file: Any) -> Any:
    for standard in ("stdout", "stderr"):
        if file is getattr(sys, standard):
            return getattr, (sys, standard)
    raise pickle.PicklingError(f"the file {file.name!r} is open in this process")


_REDUCED = {
    by_value._make_skeleton_class: _reduce_class,
    by_value._make_skeleton_enum: _reduce_enum,
}
_OF_RAY = frozenset({"ObjectRef", "ClientObjectRef", "ActorHandle", "ClientActorHandle"})
"""Names of classes; Ray itself need not be there."""
_OF_DATACLASSES = ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY")
"""Values that `dataclasses` compares by identity."""
_OF_A_MEMBER = ("_value_", "_name_", "__objclass__", "_sort_order_")
"""Attributes that `enum` itself sets on a member."""
_OF_AN_ENUM = (
    "_generate_next_value_",
    "_member_map_",
    "_member_names_",
    "_member_type_",
    "_value2member_map_",
)
"""Attributes that `enum` itself sets on the class, from its members."""
Pickler.dispatch_table = ChainMap(
    {
        **{type(getattr(dataclasses, name)): _named(name) for name in _OF_DATACLASSES},
        functools.cached_property: _reduce_cached_property,
        io.TextIOWrapper: _reduce_file,
        weakref.WeakKeyDictionary: lambda found: (weakref.WeakKeyDictionary, (dict(found),)),
        weakref.WeakValueDictionary: lambda found: (weakref.WeakValueDictionary, (dict(found),)),
    },
    cloudpickle.Pickler.dispatch_table,
)
