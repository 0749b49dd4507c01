"""Successive functions of records as one run: in Rust, or over columns.

A stretch of a chain is operators of records whose functions are understood (`engine.expression`).
A batch goes through all of them at once, with no Python object made for a record. Where a batch has
anything unusual it goes through the functions themselves, whole, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.columns import Rows, is_columns
from engine.expression.attempts import Attempts
from engine.expression.columns import ColumnProgram, GaveUp
from engine.expression.lift import Lifted, Refusal
from engine.expression.understood import understood
from engine.graph.batch_operator import NativeFigures
from engine.graph.operator import Form, Properties, RecordOperator
from engine.network import Batch, Program
from engine.task.compared import check_alike
from engine.task.rescue import ServiceRescuer
from engine.task.runs import Run, in_turn

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.config import Native
    from engine.expression.tree import Expression
    from engine.graph.logical import LogicalOperator
    from engine.task.rescue import Rescuer


class NativeStretch:
    """Operators of a chain that run as one, and their functions beside them."""

    def __init__(
        self, operators: Sequence[LogicalOperator], lifted: Sequence[Lifted], modes: set[Native]
    ) -> None:
        self.operators = operators
        self.interpreted: list[Run] = []
        """The operators one after the other, as they would run otherwise."""
        self.counters: list[list[int] | None] = []
        """The interpreted operators' counts of records out."""
        self.figures = [NativeFigures() for _ in operators]
        self._lifted = lifted
        self._modes = modes

    def rows_pay(self, takes_encoded: bool, gives_encoded: bool) -> bool:
        """Whether records that are no columns go natively, too.

        It saves more than it costs where they come encoded, as of a channel or of an operator that
        runs in Rust, or go on so towards a gate.
        """
        return takes_encoded or gives_encoded or self._modes != {"auto"}

    def run(self, gives_encoded: bool) -> Run:
        """The run of the stretch, once its interpreted operators are known."""
        lists_pay = self.rows_pay(takes_encoded=False, gives_encoded=gives_encoded)
        checks = "check" in self._modes
        expressions = [each.expression for each in self._lifted]
        forms = [_form(each) for each in self.operators]
        stages = list(zip(forms, expressions, strict=True))
        program = Program([(form, each.to_data()) for form, each in stages])
        columns = _Keyed(stages) if gives_encoded and forms[-1] == "key" else ColumnProgram(stages)
        only_filters = all(form == "filter" for form in forms)
        interpreted = in_turn(tuple(self.interpreted))
        keeps_all = all(form in ("map", "key") for form in forms)
        counters = [] if checks else [each for each in self.counters if each is not None]
        hold = _all([each.guards.hold for each in self._lifted])
        attempts = Attempts()
        fewest = _FEWEST if self._modes == {"auto"} else 1

        def over_columns(batch: Any, are_records: bool) -> Any:
            out = columns.run(batch)
            if type(out) is GaveUp:
                return out.reason, columns
            if is_columns(out) and (are_records or not only_filters):
                out = Rows(out)
            return out, columns

        def natively(batch: Any) -> Any:
            if type(batch) is not list:
                if type(batch) is Batch and batch.has_columns:
                    batch = batch.decode()
                if type(batch) is Rows:
                    return over_columns(batch.columns, are_records=True)
                if is_columns(batch):
                    return over_columns(batch, are_records=False)
                return program.run(batch), program
            return (program.run(batch) if lists_pay else None), program

        natively.__code__ = natively.__code__.replace(co_name=self._places)

        def run(batch: Any) -> Any:
            records = len(batch)
            if records < fewest or not attempts.is_due() or not hold():
                return interpreted(batch)
            out, ran = natively(batch)
            if out is None:
                return interpreted(batch)
            if type(out) is str:
                attempts.note(gave_up=True)
                self.figures[0].fell_back(out)
                return interpreted(batch)
            attempts.note(gave_up=False)
            if checks:
                check_alike(out, interpreted(batch), batch, self._names)
            if keeps_all:
                for figures in self.figures:
                    figures.native += records
                for counter in counters:
                    counter[0] += records
                return out
            for at, count in enumerate(ran.counts):
                self.figures[at].native += records
                own = self.counters[at]
                if own is not None and not checks:
                    own[0] += count
                records = count
            return out

        return run

    @property
    def _places(self) -> str:
        """What runs here and where it begins, for whoever looks where a task spends its time."""
        found = []
        for operator in self.operators:
            functions = [each for each, _ in operator.operator.properties.functions]
            codes = [each.__code__ for each in functions if hasattr(each, "__code__")]
            files = [f"{Path(code.co_filename).name}:{code.co_firstlineno}" for code in codes]
            found.append(f"{operator.name} ({', '.join(files)})" if files else operator.name)
        return f"{' -> '.join(found)} in Rust"

    @property
    def _names(self) -> str:
        return " -> ".join(operator.name for operator in self.operators)


def _all(conditions: list[Callable[[], bool]]) -> Callable[[], bool]:
    """Whether all hold; asked for each batch, so of one there is no loop."""
    return conditions[0] if len(conditions) == 1 else lambda: all(each() for each in conditions)


class _Keyed:
    """Stages that end in a key, over columns: pairs of key and dict, encoded from columns."""

    def __init__(self, stages: Sequence[tuple[Form, Expression]]) -> None:
        *before, (form, key) = stages
        self._columns = ColumnProgram(before) if before else None
        self._key = Program([(form, key.to_data())])
        self.counts: list[int] = []
        """The records out of each stage in the last run."""

    def run(self, batch: pa.RecordBatch) -> Batch | GaveUp:
        """The encoded pairs."""
        records: Any = batch if self._columns is None else self._columns.run(batch)
        if type(records) is GaveUp:
            return records
        try:
            given = Batch.of_rows(records) if is_columns(records) else records
        except Exception as error:  # noqa: BLE001  # as it is told where dicts are made
            return GaveUp(str(error).partition("\n")[0])
        out = self._key.run(given)
        if isinstance(out, str):
            return GaveUp(out)
        before = [] if self._columns is None else self._columns.counts
        self.counts = [*before, *self._key.counts]
        return out


def stretches(
    operators: Sequence[LogicalOperator],
    rescuers: Mapping[str, Rescuer],
    job: Native,
) -> dict[int, NativeStretch]:
    """The stretches of a chain, by the place of their first operators; `job` is its setting."""
    found: dict[int, NativeStretch] = {}
    members: list[LogicalOperator] = []
    lifted: list[Lifted] = []
    for at, operator in enumerate(operators):
        understood_as = _lifted(operator, rescuers, job)
        if understood_as is not None:
            members.append(operator)
            lifted += understood_as
        last = at + 1 == len(operators)
        if members and (understood_as is None or last):
            begins = at - len(members) + (understood_as is not None)
            modes = {each.native or job for each in members}
            found[begins] = NativeStretch(members, lifted, modes)
            members, lifted = [], []
    return found


def come_encoded(before: Sequence[LogicalOperator], natives: Mapping[int, NativeStretch]) -> bool:
    """Whether records are encoded behind these operators, the first of their chain."""
    in_rust = _members(natives)
    are_encoded = True
    for each in before:
        if each.id not in in_rust and not _passes(each):
            are_encoded = each.operator.properties.emits_encoded
    return are_encoded


def stay_encoded(behind: Sequence[LogicalOperator], natives: Mapping[int, NativeStretch]) -> bool:
    """Whether encoded records leave these operators, the last of their chain, as they are."""
    in_rust = _members(natives)
    return all(each.id in in_rust or _passes(each) for each in behind)


def _members(natives: Mapping[int, NativeStretch]) -> set[int]:
    return {each.id for stretch in natives.values() for each in stretch.operators}


def _passes(operator: LogicalOperator) -> bool:
    """Whether what it gives is encoded where what it gets is."""
    properties: Properties = operator.operator.properties
    return properties.accepts_batches and properties.emits_encoded


def _lifted(
    operator: LogicalOperator, rescuers: Mapping[str, Rescuer], job: Native
) -> list[Lifted] | None:
    """The operator's functions if it can be part of a stretch."""
    rescuer = rescuers.get(operator.name)
    if (
        not isinstance(operator.operator, RecordOperator)
        or (operator.native or job) == "off"
        or isinstance(rescuer, ServiceRescuer)
        # A key that is not hashable is the function's failure there, and the gate's elsewhere.
        or (rescuer is not None and operator.operator.form == "key")
    ):
        return None
    found = understood(operator.operator)
    return None if isinstance(found, Refusal) else found


def _form(operator: LogicalOperator) -> Form:
    assert isinstance(operator.operator, RecordOperator)
    return operator.operator.form


_FEWEST = 12
"""Records in a batch from which on it pays: what is done once for a batch takes a microsecond."""
