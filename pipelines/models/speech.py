"""Speech2Text with random weights of the real medium configuration, about 564 MB in two formats.

The configuration is that of s2t-medium-librispeech-asr, the model of the published experiment. Like
that model's folder, it has the weights as safetensors and in PyTorch's own format. The tensors are
loaded in place. A folder of real weights is published by its path.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError
from engine.installation.cached import cached
from engine.installation.distribution import install_hint
from pipelines.models.kind import Answer, Kind

if TYPE_CHECKING:
    from engine.model import Model


@dataclass(frozen=True)
class Speech(Kind):
    """A folder with config.json, model.safetensors and pytorch_model.bin, made once per machine."""

    seed: int = 0

    def prepare(self, via: str) -> Iterator[Any]:
        """Yield the folder, and make it in a few seconds if it does not exist."""
        _packages()
        yield cached(f"models/speech-{self.seed}", self._make)

    def load(self, model: Model) -> Any:
        """The network over the tensors in place; the PyTorch file, which is equal, is not read."""
        torch, transformers = _packages()
        config = transformers.Speech2TextConfig(**json.loads(bytes(model.files["config.json"])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tensors stay read-only
            weights = {name: torch.from_numpy(tensor) for name, tensor in model.tensors().items()}
        network = transformers.Speech2TextForConditionalGeneration.from_pretrained(
            None, config=config, state_dict=weights
        )
        return network.eval()

    def run(self, loaded: Any) -> Answer:
        """The logits of four steps for two seconds of a fixed signal."""
        torch, _ = _packages()
        torch.set_num_threads(1)  # sums in one order: equal weights give equal bits
        features = torch.sin(torch.arange(200 * 80, dtype=torch.float32)).reshape(1, 200, 80)
        steps = torch.tensor([[2, 5, 7, 11]])
        with torch.no_grad():
            logits = loaded(input_features=features, decoder_input_ids=steps).logits
        answers = logits.argmax(-1)[0].tolist()
        return Answer(f"{zlib.crc32(logits.numpy().tobytes()):08x}", {"answers": answers})

    def _make(self, folder: Path) -> None:
        torch, transformers = _packages()
        torch.manual_seed(self.seed)
        config = transformers.Speech2TextConfig(**_MEDIUM)
        network = transformers.Speech2TextForConditionalGeneration(config)
        network.save_pretrained(folder)
        torch.save(network.state_dict(), folder / "pytorch_model.bin")


def _packages() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the model 'speech' needs the package {error.name}, which is not installed",
            f"{install_hint('speech')}, on every node; 'synthetic:564MB' has its size without it",
        ) from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return torch, transformers


_MEDIUM = {
    "vocab_size": 10_000,
    "d_model": 512,
    "encoder_layers": 12,
    "encoder_ffn_dim": 2048,
    "encoder_attention_heads": 8,
    "decoder_layers": 6,
    "decoder_ffn_dim": 2048,
    "decoder_attention_heads": 8,
    "conv_channels": 1024,
}
