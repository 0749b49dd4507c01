"""Objects of Python's classes travel as a reference to the class, and their parts.

Dataclasses travel as their fields, and named tuples as their items, both in Rust. Enums travel as a
name; collections, paths and pydantic models as parts that the functions here take out and put
together. An object arrives unchanged: no `__init__`, `__new__` or `__post_init__` runs a second
time. Classes that define how they are pickled are refused, since their own code does not run here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import PurePath, PureWindowsPath
from typing import Any, Literal, NamedTuple

from engine.record import registry as record_registry

NAMED_TUPLE, VALUE_ENUM, EQUAL_BY_PARTS, OBJECT, STATE = 5, 6, 7, 39, 40
"""Extension codes, which Rust reads as well: they tell which values an object may equal."""


class Shape(NamedTuple):
    """The form in which values of one class travel. Rust asks for it once per class.

    `payload`: `take(value)` gives the bytes behind the code. All other forms begin with the
    reference. `parts`: `take(value)` gives a tuple of values, `build(*parts)` the value. `members`:
    the same, of a class that has each value once. `items`: those of a tuple. `names` are those of
    the items or the fields. `fields`: the attributes of these names; if an object has others,
    `take(value)` gives a dict of all its attributes, and `build(dict)` the object.
    """

    form: Literal["payload", "parts", "members", "items", "fields"]
    code: int
    take: Callable[[Any], Any]
    build: Callable[..., Any]
    reference: record_registry.Reference | None = None
    names: tuple[str, ...] = ()


def shape_of(kind: type) -> Shape | None:
    """The form in which objects of exactly this class travel; None if its kind is unknown.

    Raises TypeError, with a hint, if the kind is known but the objects cannot travel.
    """
    describe = _describe(kind)
    return None if describe is None else describe(kind)


def is_known(kind: type) -> bool:
    """Whether it is a class of a kind whose objects may travel."""
    return _describe(kind) is not None


def key_of(kind: type) -> Callable[[Any], object] | None:
    """The function that gives an equal plain key for equal objects; None if there is none."""
    if issubclass(kind, enum.Enum):
        return _enum_key(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_key(kind)
    if kind in _PATHS:
        return _path_key
    return None


def _describe(kind: type) -> Callable[[type], Shape] | None:
    if kind in _COLLECTIONS:
        return _collection
    if kind in _PATHS:
        return _path
    if issubclass(kind, enum.Enum):
        return _enum
    if _is_named_tuple(kind):
        return _named_tuple
    if _is_model(kind):
        return _model
    if dataclasses.is_dataclass(kind):
        return _dataclass
    return None


def _dataclass(kind: type) -> Shape:
    _refuse_pickling_of_its_own(kind, _PICKLING)
    try:
        object.__new__(kind)
    except TypeError as error:  # a base has a memory layout of its own
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} cannot travel in a record: {error}\n\n{_HINT}"
        ) from None
    names = tuple(field.name for field in dataclasses.fields(kind))
    slots = _slots(kind)
    take = functools.partial(_state, kind, slots)
    build = functools.partial(_with_state, kind, slots)
    if _keeps_fields_alone(kind, names, slots):
        code = EQUAL_BY_PARTS if _equal_by_parts(kind) else OBJECT
        return Shape("fields", code, take, build, record_registry.reference(kind), names)
    return Shape(
        "parts", STATE, lambda value: (take(value),), build, record_registry.reference(kind)
    )


def _keeps_fields_alone(
    kind: type, names: tuple[str, ...], slots: dict[str, types.MemberDescriptorType]
) -> bool:
    """Whether each field is stored and read under its name, and all are in slots or in a dict."""
    if getattr(kind, "__getattribute__") is not object.__getattribute__:  # noqa: B009 - untyped
        return False
    if not kind.__dictoffset__:
        return {name: inspect.getattr_static(kind, name) for name in names} == slots
    descriptors = (inspect.getattr_static(kind, name, None) for name in names)
    return not slots and not any(hasattr(type(found), "__set__") for found in descriptors)


def _slots(kind: type) -> dict[str, types.MemberDescriptorType]:
    return {
        name: found
        for base in reversed(kind.__mro__)
        for name, found in vars(base).items()
        if isinstance(found, types.MemberDescriptorType)
    }


def _state(
    kind: type, slots: dict[str, types.MemberDescriptorType], value: Any
) -> dict[str, object]:
    """All attributes except those that Python or typing add themselves."""
    state = {
        name: attribute
        for name, attribute in getattr(value, "__dict__", {}).items()
        if name != "__orig_class__"
        and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }
    for name, slot in slots.items():
        try:
            state[name] = slot.__get__(value)
        except AttributeError:  # the attribute was never set
            continue
    return state


def _with_state(
    kind: type, slots: dict[str, types.MemberDescriptorType], state: dict[str, object]
) -> object:
    value: object = object.__new__(kind)
    for name, attribute in state.items():
        if type(name) is not str:
            raise TypeError(f"an attribute {name!r:.80}, expected a name")
        if name in slots:
            slots[name].__set__(value, attribute)
        else:
            vars(value)[name] = attribute
    return value


def _equal_by_parts(kind: Any) -> bool:
    """Whether objects are equal exactly if all their fields are, and can be keys."""
    return _equal_by_fields(kind) and all(field.compare for field in dataclasses.fields(kind))


def _equal_by_fields(kind: Any) -> bool:
    """Whether it is hashable, and its `__eq__` the one that `dataclass` writes for its fields."""
    fields = dataclasses.fields(kind)
    pattern: Any = dataclasses.make_dataclass(
        "Pattern",
        [(field.name, object, dataclasses.field(compare=field.compare)) for field in fields],
        kw_only=True,
    )
    code = getattr(kind.__eq__, "__code__", None)
    expected = pattern.__eq__.__code__
    return kind.__hash__ is not None and all(
        getattr(code, part, None) == getattr(expected, part)
        for part in ("co_code", "co_names", "co_consts")
    )


def _dataclass_key(kind: Any) -> Callable[[Any], object] | None:
    if not _equal_by_fields(kind):
        return None
    name = kind.__qualname__
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    return lambda value: ("dataclass", name, *(getattr(value, name) for name in names))


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def _named_tuple(kind: Any) -> Shape:
    _refuse_pickling_of_its_own(kind, _PICKLING - {"__getnewargs__"})
    like_a_tuple = kind.__eq__ is tuple.__eq__ and kind.__hash__ is tuple.__hash__
    code = NAMED_TUPLE if like_a_tuple else OBJECT
    reference = record_registry.reference(kind)
    if kind.__dictoffset__:
        build = lambda *items: tuple.__new__(kind, items)  # noqa: E731
        return Shape("parts", code, _items, build, reference, kind._fields)
    return Shape("items", code, _items, tuple, reference, kind._fields)


def _items(value: Any) -> tuple[object, ...]:
    if vars(value):
        raise TypeError(
            f"the named tuple {value!r:.80} has attributes beside its items, "
            f"{', '.join(vars(value))}, expected none\n\n{_HINT}"
        )
    return tuple(value)


def _enum(kind: Any) -> Shape:
    value_type = _value_type(kind)
    by_identity = kind.__eq__ is object.__eq__
    code = EQUAL_BY_PARTS if by_identity else OBJECT if value_type is None else VALUE_ENUM

    def take(member: Any) -> tuple[object, ...]:
        is_flag = issubclass(kind, enum.Flag)
        if not is_flag and kind._member_map_.get(member._name_) is not member:
            raise TypeError(
                f"{member!r:.80} is no member of its class: what _missing_ makes of a value cannot "
                "travel in a record\n\nhint: emit its value, and make the member where it is needed"
            )
        name = member._value_ if is_flag else member._name_
        return (name,) if value_type is None else (name, _PLAIN[value_type](member))

    def build(name: Any, *_: object) -> object:
        return kind(name) if issubclass(kind, enum.Flag) else kind._member_map_[name]

    return Shape("members", code, take, build, record_registry.reference(kind))


def _value_type(kind: Any) -> type | None:
    """The type of which a member equals its value, such as int for an IntEnum."""
    found: type = kind._member_type_
    alike = kind.__eq__ is found.__eq__ and kind.__hash__ is found.__hash__
    return found if found in _PLAIN and alike else None


def _enum_key(kind: Any) -> Callable[[Any], object] | None:
    value_type = _value_type(kind)
    if value_type is not None:
        return _PLAIN[value_type]
    if kind.__eq__ is not object.__eq__:
        return None
    name = kind.__qualname__
    return lambda member: ("enum", name, member._name_ or member._value_)


def _collection(kind: type) -> Shape:
    take, build = _COLLECTIONS[kind]
    return Shape("parts", OBJECT, take, build, record_registry.reference(kind))


def _take_defaultdict(value: defaultdict[Any, Any]) -> tuple[object, ...]:
    factory = value.default_factory
    if factory is None or factory in _FACTORIES.values():
        return (getattr(factory, "__name__", None), dict(value))
    if isinstance(factory, type) and is_known(factory):
        return ((record_registry.reference(factory),), dict(value))
    raise TypeError(
        f"a defaultdict of {factory!r:.80} cannot travel in a record, expected "
        f"{', '.join(_FACTORIES)}, a dataclass or None as its factory\n\nhint: emit dict(value)"
    )


def _build_defaultdict(factory: Any, content: dict[Any, Any]) -> object:
    if isinstance(factory, tuple):
        (reference,) = factory
        found: Any = record_registry.find(reference)
        if not is_known(found):
            raise TypeError(f"a defaultdict of {found!r:.80}")
    else:
        found = None if factory is None else _FACTORIES[factory]
    return defaultdict(found, content)


def _path(kind: type) -> Shape:
    return Shape("parts", OBJECT, lambda path: (str(path),), kind, record_registry.reference(kind))


def _path_key(path: PurePath) -> object:
    if isinstance(path, PureWindowsPath):
        return ("path", "windows", path.as_posix().lower())
    return ("path", "posix", str(path))


def _is_model(kind: type) -> bool:
    """Whether it is a pydantic model; pydantic is not imported to find out."""
    return any(
        base.__name__ == "BaseModel" and base.__module__ in ("pydantic.main", "pydantic.v1.main")
        for base in kind.__mro__
    )


def _model(kind: Any) -> Shape:
    # The parts are pydantic's own pickled state, whose values are not validated again.
    def build(state: object) -> object:
        model = kind.__new__(kind)
        model.__setstate__(state)
        return model

    return Shape(
        "parts",
        STATE,
        lambda model: (model.__getstate__(),),
        build,
        record_registry.reference(kind),
    )


def _refuse_pickling_of_its_own(kind: type, methods: frozenset[str]) -> None:
    for name in sorted(methods):
        found = getattr(kind, name, None)
        # A frozen dataclass with slots has two that dataclass itself has written.
        generated = getattr(found, "__module__", None) == "dataclasses"
        if found is not getattr(object, name, None) and not generated:
            raise TypeError(
                f"{kind.__module__}.{kind.__qualname__} cannot travel in a record: it has {name}, "
                f"and so more to it than its fields\n\n{_HINT}"
            )


_HINT = "hint: .with_pickle() lets a stream carry such objects; or emit their parts as a tuple"
_PICKLING = frozenset(
    {
        "__del__",
        "__getnewargs__",
        "__getnewargs_ex__",
        "__getstate__",
        "__reduce__",
        "__reduce_ex__",
        "__setstate__",
    }
)
_PLAIN: dict[type, Callable[[Any], object]] = {
    int: int.__index__,
    str: str.__str__,
    float: float.__float__,
}
_FACTORIES: dict[str, type] = {
    kind.__name__: kind
    for kind in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}
_COLLECTIONS: dict[type, tuple[Callable[[Any], tuple[object, ...]], Callable[..., object]]] = {
    OrderedDict: (lambda value: (dict(value),), OrderedDict),
    defaultdict: (_take_defaultdict, _build_defaultdict),
    Counter: (lambda value: (dict(value),), Counter),
    deque: (lambda value: (list(value), value.maxlen), deque),
}
_PATHS = frozenset(kind for kind in record_registry.OWN if issubclass(kind, PurePath))
