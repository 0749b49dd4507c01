"""What `oka plan` prints."""

from engine.graph import chain, expand, logical_graph
from engine.graph.render import mermaid, text
from engine.placement.nodes import Node
from engine.placement.place import place
from operators import source
from operators.sinks import Counts
from operators.sources import Collection

LOGICAL = logical_graph(
    source(Collection(["a"])).named('the "words"').key_by().count().sink(Counts())
)
EXECUTION = expand(chain(LOGICAL, 2))
PLACEMENT = place(EXECUTION, [Node("here", "127.0.0.1", {"cpus": 4.0})])


def test_text() -> None:
    assert text(LOGICAL, EXECUTION, PLACEMENT).splitlines() == [
        "logical graph",
        '  the "words"',
        '  count <- the "words" (hash by record)',
        "  counts <- count (forward)",
        "",
        "job graph",
        '  the "words" x2 (each cpus 1)',
        "  count -> counts x2 (each cpus 1)",
        '    <- the "words" (hash by record)',
        "",
        "execution graph: 4 tasks, 4 channels",
        '  the "words" -> count -> counts: 4 channels (hash by record)',
        "",
        "placement",
        '  here: the "words" [0, 1], count -> counts [0, 1]',
        "  note: operator_first needs a node for each of 2 vertices; all of them share 127.0.0.1, "
        "the only node",
    ]


def test_side_outputs_and_keys_of_several_items() -> None:
    bad = source(Collection([("a", 1)])).map(len, on_error="side").side("errors")
    logical = logical_graph(bad.key_by(0, 1).count().sink(Counts()))
    execution = expand(chain(logical, 1))
    placement = place(execution, [Node("here", "127.0.0.1", {"cpus": 4.0})])
    lines = text(logical, execution, placement).splitlines()
    assert "  count <- map (side output errors, hash by 0, 1)" in lines
    assert "    <- collection -> map (side output errors of map, hash by 0, 1)" in lines


def test_mermaid() -> None:
    diagrams = mermaid(LOGICAL, EXECUTION, PLACEMENT)
    assert diagrams.count("```mermaid\nflowchart LR\n") == 3
    assert 'o0["the #quot;words#quot;"]' in diagrams
    assert 'o0 -->|"hash by record"| o1' in diagrams
    assert 'v1["count -#gt; counts x2"]' in diagrams
    assert 'subgraph n0["here"]' in diagrams
    assert "t1 --> t3" in diagrams
    assert diagrams.endswith("the only node")
