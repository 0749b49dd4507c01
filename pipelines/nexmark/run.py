"""One of Nexmark's queries over the published generator's events.

Run it with `oka run pipelines/nexmark/run.py query=q5 api=per_record events=300000`.
"""

from __future__ import annotations

import engine
from operators import Pipeline
from operators.sinks import Discard, JsonLines
from pipelines.nexmark.events import Events
from pipelines.nexmark.queries import query as query_of
from pipelines.nexmark.source import Api, Tables


def pipeline(
    query: str = "q5",
    api: Api = "columnar",
    events: int = 1_000_000,
    rate: int = 10_000,
    disorder: int = 1,
    folder: str | None = None,
    output: str | None = None,
) -> Pipeline:
    """The query over so many events, or those in a folder's files. Results go to `output`.

    Without `output` they are only counted.
    """
    chosen = Events(events, rate, disorder) if folder is None else Events.read(folder)
    results = query_of(query).of(Tables(chosen, api))
    return results.sink(Discard() if output is None else JsonLines(output))


if __name__ == "__main__":
    print(engine.execute(pipeline(), parallelism=2, name="nexmark"))
