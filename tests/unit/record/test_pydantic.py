"""Models of pydantic as records: their state travels as it is, validated once."""

from __future__ import annotations

import sys
import types
from typing import Any, Generic, TypeVar

import pydantic
import pytest

import engine.testing
from engine.network import Batch, KeyExtractError, partition
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

T = TypeVar("T")
validated: list[str] = []


class Item(pydantic.BaseModel):
    name: str
    price: float = 1.0

    @pydantic.field_validator("name")
    @classmethod
    def louder(cls, name: str) -> str:
        validated.append(name)
        return f"{name}!"


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    items: list[Item]
    hidden: str = pydantic.Field(default="", exclude=True)
    _note: str = pydantic.PrivateAttr(default="")


class Frozen(pydantic.BaseModel, frozen=True):
    a: int


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Box(pydantic.BaseModel, Generic[T]):
    content: T


@pydantic.dataclasses.dataclass
class Checked:
    a: int


def order() -> Order:
    made = Order(items=[Item(name="a"), Item(name="b", price=2)], hidden="h", more=[1])
    made._note = "n"
    return made


@pytest.mark.parametrize(
    "model",
    [
        Item(name="a"),
        order(),
        Frozen(a=1),
        Numbers([1, 2]),
        Box[int](content=3),
        Checked(1),
        Item.model_construct(name="never validated"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_arrives_as_it_was_sent(model: Any) -> None:
    before = list(validated)
    (arrived,) = Batch.from_list([model]).to_list()
    assert type(arrived) is type(model)
    assert arrived == model
    assert repr(arrived) == repr(model)
    assert getattr(arrived, "model_fields_set", 0) == getattr(model, "model_fields_set", 0)
    assert validated == before


def test_what_a_dump_leaves_out_travels_too() -> None:
    (arrived,) = Batch.from_list([order()]).to_list()
    assert arrived._note == "n"
    assert arrived.hidden == "h"
    assert arrived.model_extra == {"more": [1]}


def test_a_model_is_no_key() -> None:
    with pytest.raises(KeyExtractError, match=r"Frozen cannot be a key"):
        partition([Frozen(a=1)], 2)


def test_a_model_of_a_pipeline_file_through_a_job() -> None:
    cell = types.ModuleType("__main__")
    exec("import pydantic\nclass Event(pydantic.BaseModel):\n    a: int", vars(cell))
    event = cell.Event
    made = source(Collection([1, 2])).map(lambda n: event(a=n))
    arrived = engine.testing.run(made.rebalance().map(lambda each: each).sink(Collect()))
    assert arrived == {"collect": [event(a=1), event(a=2)]}
    assert sys.modules["__main__"] is not cell
