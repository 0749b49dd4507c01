"""What a program loads before it begins: each process of a job pays for it."""

import subprocess
import sys

PROGRAM = """
import sys, engine, operators, operators.sinks, operators.sources, operators.windows
print([name for name in ('numpy', 'pyarrow', 'ray', 'confluent_kafka') if name in sys.modules])
"""


def test_a_program_loads_no_library_that_it_may_not_need() -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "[]"
