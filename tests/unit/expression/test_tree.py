"""Tests of the form of expressions."""

from engine.expression.tree import Block, Branch, Expression, Return, Skip, Step


def test_blocks_inside_steps_and_behind_branches_become_data() -> None:
    negative = Block((Step("negative", (0,)),), Return(3))
    body = Block((Step("truth", (1,)),), Branch(2, Block((), Return(1)), Block((), Skip())))
    steps = (Step("constant", (), 0), Step("each", (0,), body))
    expression = Expression(1, Block(steps, Branch(1, Block((), Return(2)), negative)))
    assert expression.to_data() == (
        1,
        (
            [
                ("constant", [], 0),
                (
                    "each",
                    [0],
                    (
                        [("truth", [1], None)],
                        ("branch", 2, ([], ("return", 1)), ([], ("skip",))),
                    ),
                ),
            ],
            ("branch", 1, ([], ("return", 2)), ([("negative", [0], None)], ("return", 3))),
        ),
    )
