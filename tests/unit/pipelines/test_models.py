"""Models to broadcast: which one a text means, what they make, and what loading reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigError
from engine.installation.cached import cached
from engine.model import Descriptor, MemoryLanding, Model, pack
from pipelines.model_broadcast import model_broadcast
from pipelines.models import kind_of
from pipelines.models.digits import Digits, held_out, predict, train
from pipelines.models.kind import parse_size
from pipelines.models.plain import Files, Memory, Synthetic, fold
from pipelines.models.speech import Speech


def received(value: Any) -> Model:
    """The value as a task gets it that it was published to."""
    package = pack(value)
    landing = MemoryLanding(package.layout.size)
    package.write_to(landing)
    blob = landing.finish()
    descriptor = Descriptor("channels", 1, "model", package.layout, origin=0, number=1)
    return Model(descriptor, lambda _timeout: blob)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKA_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("text", "size"),
    [("564MB", 564_000_000), ("1.5 KiB", 1536), ("7", 7), ("2gb", 2 * 10**9), ("1MiB", 1 << 20)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_what_a_text_means() -> None:
    assert kind_of("synthetic:1KB") == Synthetic(1000)
    assert kind_of("memory:1KB") == Memory(1000)
    assert kind_of("digits") == Digits()
    assert kind_of("speech") == Speech()
    assert kind_of("models/mine") == Files("models/mine")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "synthetic:big"}, "the size is 'big', expected such as 564MB"),
        ({"model": ""}, "model is '', expected digits, speech, synthetic"),
        ({"via": "ftp"}, "via is 'ftp', expected one of channels, plasma, s3"),
        ({"loaders": 0}, "loaders is 0, expected an integer of at least 1"),
        ({"loaders": "2"}, "loaders is '2', expected an integer"),
        ({"placement": "here"}, "placement is 'here', expected one of same_task_node, same_node"),
        ({"placement": [1, 1, 2]}, "or the number of the node of each of 2 Load tasks"),
        ({"via": "s3"}, "via is 's3', model is 'digits' and s3_url is None"),
    ],
)
def test_wrong_arguments_fail_before_anything_starts(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model_broadcast(**{"model": "digits", "loaders": 2, **changes})
    assert message in caught.value.message


def test_the_loaded_classifier_answers_as_the_trained_one(tmp_path: Path) -> None:
    trained = train(tmp_path)
    images, labels = held_out()
    model = received(tmp_path)
    tensors = Digits().load(model)
    assert np.array_equal(predict(tensors, images), trained.predict(images))
    assert not any(tensor.flags.owndata for tensor in tensors.values())  # read in place
    answer = Digits().run(tensors)
    assert answer.facts["accuracy"] == trained.score(images, labels) > 0.8
    (first, *_) = Digits().prepare("channels")
    assert not first.exists()  # the iteration is over


def test_a_byte_anywhere_changes_the_checksum() -> None:
    data = bytearray(Memory(20_011).prepare("channels").__next__().tobytes())

    def checksum() -> str:
        return Memory(0).run(Memory(0).load(received(bytes(data)))).checksum

    whole = checksum()
    assert whole == checksum()
    for at in (0, 8191, 8192, 16_384, 20_010):
        data[at] ^= 1
        assert checksum() != whole
        data[at] ^= 1
    data[:8192], data[8192:16_384] = data[8192:16_384], data[:8192]
    assert checksum() != whole
    assert not np.array_equal(fold(bytes(9)), fold(bytes(10)))


def test_synthetic_files_are_made_once_and_have_their_size(tmp_path: Path) -> None:
    kind = Synthetic(100_001)
    (folder,) = kind.prepare("plasma")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) == 100_001
    assert [path.name for path in files] == ["config.json", "0.bin", "1.bin"]
    before = [path.stat().st_mtime_ns for path in files]
    assert kind.folder() == folder
    assert [path.stat().st_mtime_ns for path in files] == before
    model = received(folder)
    assert kind.run(kind.load(model)).facts == {"parts": 3}
    assert [path.name for path in (tmp_path / "cache" / "models").iterdir()] == [folder.name]


def test_a_model_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_text("of it")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached("models/broken", make)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_speech_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match="'speech' needs the package torch") as caught:
        next(iter(Speech().prepare("channels")))
    assert "pip install 'oka-streams[speech]'" in str(caught.value.hint)


def test_speech_reads_its_weights_in_place() -> None:
    pytest.importorskip("torch")
    kind = Speech()
    (folder,) = kind.prepare("channels")
    model = received(folder)
    assert 560e6 < model.size < 580e6
    network = kind.load(model)
    weight = network.model.encoder.layers[0].fc1.weight
    assert weight.data_ptr() == model.tensors()["model.encoder.layers.0.fc1.weight"].ctypes.data
    assert kind.run(network).checksum == kind.run(kind.load(received(folder))).checksum
