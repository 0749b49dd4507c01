"""Recognizes handwritten digits over HTTP, by a model that can be replaced while it serves.

    oka run pipelines/online_inference.py folder=digits
    python -c 'print([0.5] * 64)' | curl -s localhost:8000/digit -d @-

The folder has a model of `pipelines.models.digits.train`, which makes one if there is none. Move
another model into its place, and it serves from the next batch on; a broken model does no harm. A
request is the 64 pixels of an image of 8 x 8, from 0 to 1, as a list in JSON; the answer is
`{"digit": 3, "model": 1}`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from engine.gateway import Request, Response
from operators import Pipeline, source
from operators.sources import HttpSource, Models
from pipelines.models import digits

if TYPE_CHECKING:
    from engine.model import Model


class Loaded(NamedTuple):
    """A loaded model."""

    version: int
    tensors: Mapping[str, digits.Floats]


def online_inference(
    folder: str = "digits",
    port: int = 8000,
    tasks: int = 1,
    host: str = "127.0.0.1",
    token_file: str = "",
) -> Pipeline:
    """Serve the model in a folder, and each model that replaces it there.

    With another host than this machine, clients need the token of the file.
    """
    token = Path(token_file).read_text().strip() if token_file else None
    if not Path(folder).exists():
        made = Path(tempfile.mkdtemp(prefix=f".{Path(folder).name}-", dir=Path(folder).parent))
        digits.train(made)
        made.rename(folder)
    models = source(Models(watch=folder)).broadcast(via="channels")
    requests = source(HttpSource(port, "/digit", host, token=token)).on_nodes(0)
    answers = requests.map_batches_with_model(models, load, predict)
    return answers.with_parallelism(tasks).on_nodes(0).respond()


def load(model: Model) -> Loaded:
    """The tensors in place."""
    return Loaded(model.version, model.tensors())


def predict(loaded: Loaded, requests: list[Request]) -> list[Response]:
    """The digits of all images at once; the status 422 for a body that is no image."""
    images = [image_of(request) for request in requests]
    pixels = np.array([image for image in images if image is not None], np.float32)
    found = iter(digits.predict(loaded.tensors, pixels.reshape(-1, PIXELS)).tolist())
    return [
        request.reply(f"expected a list of {PIXELS} numbers in JSON\n", 422)
        if image is None
        else request.reply({"digit": next(found), "model": loaded.version})
        for request, image in zip(requests, images, strict=True)
    ]


def image_of(request: Request) -> list[float] | None:
    """The pixels; None if the body has none."""
    try:
        image = request.json()
    except ValueError:
        return None
    if not isinstance(image, list) or len(image) != PIXELS:
        return None
    return image if all(type(each) in (int, float) for each in image) else None


PIXELS = 64
