"""The ways of operators' functions: natively, over columns or in Python, as the plan knows them."""

from __future__ import annotations

from collections.abc import Mapping

from engine.config import Native
from engine.errors import GraphError
from engine.expression.lift import Refusal
from engine.expression.understood import understood
from engine.gateway import GatewaySettings
from engine.graph.execution import ExecutionGraph
from engine.graph.logical import LogicalGraph, LogicalOperator
from engine.graph.operator import RecordOperator
from engine.task.native import come_encoded, stay_encoded, stretches


def ways(logical: LogicalGraph, execution: ExecutionGraph, job: Native) -> Mapping[int, str]:
    """The way of each operator with functions of records, by its id; `job` is the job's setting.

    It is "native", "over columns", or "Python" with the reason; without functions, what the
    operator says.
    """
    told = {each.id: each.operator.properties.way for each in logical.operators}
    found = {number: way for number, way in told.items() if way is not None}
    functions = [each for each in logical.operators if each.operator.properties.functions]
    if _has_requests(logical):
        return found | {each.id: "Python: the job answers requests" for each in functions}
    found |= {each.id: _way(each, each.native or job) for each in functions}
    rows = logical.takes_rows()
    for vertex in execution.job.vertices:
        delivers = any(edge.output is None for edge in execution.job.outputs(vertex))
        natives = stretches(vertex.operators, {}, job)
        for begin, stretch in natives.items():
            takes_encoded = come_encoded(vertex.operators[:begin], natives)
            behind = vertex.operators[begin + len(stretch.operators) :]
            gives_encoded = delivers and stay_encoded(behind, natives)
            if stretch.rows_pay(takes_encoded, gives_encoded):
                continue
            for each in stretch.operators:
                found[each.id] = (
                    "over columns" if each.id in rows else "Python: so are its neighbours"
                )
    return found


def check(logical: LogicalGraph, found: Mapping[int, str], job: Native) -> None:
    """Raise GraphError for an operator that is to run natively, and does not."""
    for operator in logical.operators:
        way = found.get(operator.id, "")
        if (operator.native or job) == "require" and way.startswith("Python"):
            raise GraphError(
                f"operator {operator.name!r} is to run natively, and its function "
                f"{way.removeprefix('Python: ')}",
                hint="docs/reference/native-functions.md has what is understood; "
                "native='auto' leaves the rest to Python",
            )


def _way(operator: LogicalOperator, mode: Native) -> str:
    if mode == "off":
        return "Python: native is off"
    found = understood(operator.operator)
    if isinstance(found, Refusal):
        return f"Python: {found.reason}"
    kind = operator.operator
    if isinstance(kind, RecordOperator) and kind.form == "key" and kind.on_error != "fail":
        return f"Python: on_error={kind.on_error!r} looks at each key"
    return "native"


def _has_requests(logical: LogicalGraph) -> bool:
    """Whether its records are requests, whose functions may fail one by one."""
    return any(
        each.operator.properties.wanted(GatewaySettings) is not None for each in logical.operators
    )
