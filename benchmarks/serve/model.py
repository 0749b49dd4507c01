"""A pipeline that answers with a model, which is replaced every so many seconds, or never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.gateway import Request, Response
from operators import Pipeline, source
from operators.sources import HttpSource, Models

if TYPE_CHECKING:
    from engine.model import Model

Weights = npt.NDArray[np.float32]


def model(port: int = 8000, every: float = 0.0, megabytes: int = 10) -> Pipeline:
    """Answer each request with a number of the model, in another process than the gateway's."""
    count = 3600 if every else 1
    weights = np.ones(megabytes * 250_000, np.float32)
    values = [weights] * count
    models = source(Models(*values, every=every) if every else Models(*values))
    requests = source(HttpSource(port)).on_nodes(0)
    return requests.map_batches_with_model(models.broadcast(via="channels"), load, answer).respond()


def load(found: Model) -> Weights:
    """The array in place."""
    weights: Weights = found.value()
    return weights


def answer(weights: Weights, requests: list[Request]) -> list[Response]:
    """As little work as a model can do."""
    first = str(weights[0])
    return [request.reply(first) for request in requests]
