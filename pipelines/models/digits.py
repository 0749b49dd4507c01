"""A classifier of handwritten digits: small, trained on the spot, so that answers can be checked.

scikit-learn trains it on its own data, and it is saved as safetensors. To run, it needs only NumPy:
the tensors are read in place.
"""

from __future__ import annotations

import json
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from engine.errors import ConfigError
from engine.installation.distribution import install_hint
from pipelines.models.kind import Answer, Kind

if TYPE_CHECKING:
    from engine.model import Model

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Digits(Kind):
    """64 pixels, one hidden layer, 10 digits; the last 360 of 1,797 digits are held out."""

    def prepare(self, via: str) -> Iterator[Any]:
        """Train, save, and yield the folder, which exists while it is published."""
        with tempfile.TemporaryDirectory(prefix="oka-digits-") as folder:
            train(Path(folder))
            yield Path(folder)

    def load(self, model: Model) -> Mapping[str, Floats]:
        """The tensors in place, as read-only views."""
        return model.tensors()

    def run(self, loaded: Mapping[str, Floats]) -> Answer:
        """Its answers for the held-out digits, and the share of right ones."""
        images, labels = held_out()
        answers = predict(loaded, images)
        return Answer(
            f"{zlib.crc32(bytes(answers.tolist())):08x}",
            {"accuracy": float(np.mean(answers == labels))},
        )


def train(folder: Path) -> Any:
    """Train the classifier, save it as a model, and return scikit-learn's classifier."""
    from safetensors.numpy import save_file

    neural_network = _sklearn("neural_network")
    images, labels = _digits()
    classifier = neural_network.MLPClassifier(
        (32,), max_iter=30, learning_rate_init=0.01, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged: it is good enough
        classifier.fit(images[:-_HELD_OUT], labels[:-_HELD_OUT])
    tensors = {}
    for layer, (weights, bias) in enumerate(
        zip(classifier.coefs_, classifier.intercepts_, strict=True)
    ):
        tensors[f"layers.{layer}.weight"] = weights.astype(np.float32)
        tensors[f"layers.{layer}.bias"] = bias.astype(np.float32)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"layers": len(classifier.coefs_)}))
    return classifier


def predict(tensors: Mapping[str, Floats], images: Floats) -> npt.NDArray[np.int64]:
    """The digit that each image shows."""
    values, last = images, len(tensors) // 2 - 1
    for layer in range(last + 1):
        values = values @ tensors[f"layers.{layer}.weight"] + tensors[f"layers.{layer}.bias"]
        if layer < last:
            values = np.maximum(values, 0)
    answers: npt.NDArray[np.int64] = np.argmax(values, axis=1)
    return answers


def held_out() -> tuple[Floats, npt.NDArray[np.int64]]:
    """Images that it was not trained on, and their digits."""
    images, labels = _digits()
    return images[-_HELD_OUT:], labels[-_HELD_OUT:]


def _digits() -> tuple[Floats, npt.NDArray[np.int64]]:
    images, labels = _sklearn("datasets").load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


def _sklearn(module: str) -> Any:
    try:
        import safetensors.numpy  # noqa: F401 - it is part of what the extra installs
        import sklearn.datasets
        import sklearn.neural_network
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the model 'digits' needs the package {error.name}, which is not installed",
            f"{install_hint('models')}, on every node",
        ) from error
    return getattr(sklearn, module)


_HELD_OUT = 360
