"""What watches a job for monitoring systems, as its settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.config import JobConfig
from engine.errors import ConfigError
from engine.installation.distribution import install_hint
from engine.monitoring.families import Exposition
from engine.report.samples import Sample

if TYPE_CHECKING:
    from engine.monitoring.endpoint import Endpoint
    from engine.monitoring.otlp import Exporter


class Monitoring:
    """Tells monitoring systems of one job, from before it starts until it has ended.

    Raises ConfigError if the endpoint cannot be there, or what exports is not installed.
    """

    period = 1.0

    def __init__(self, config: JobConfig, say: Callable[[str], object]) -> None:
        self._exposition = Exposition(config)
        self._endpoint: Endpoint | None = None
        self._exporter: Exporter | None = None
        if config.otlp_endpoint is not None:
            try:
                from engine.monitoring.otlp import Exporter
            except ImportError as error:
                raise ConfigError(
                    "otlp_endpoint is set and OpenTelemetry is not installed", install_hint("otlp")
                ) from error
            self._exporter = Exporter(config.otlp_endpoint, self._exposition.families)
        if config.metrics_port is not None:
            from engine.monitoring.endpoint import Endpoint  # not in jobs without it

            families = self._exposition.families
            self._endpoint = Endpoint(config.metrics_host, config.metrics_port, families)
            say(f"metrics are at {self._endpoint.url}")

    @property
    def url(self) -> str | None:
        """Where Prometheus may scrape."""
        return None if self._endpoint is None else self._endpoint.url

    def take(self, sample: Sample) -> None:
        """Tell of the job as it is now."""
        self._exposition.take(sample)

    def close(self) -> None:
        """Tell the last, and let go of everything."""
        if self._endpoint is not None:
            self._endpoint.close()
        if self._exporter is not None:
            self._exporter.close()


def monitoring(config: JobConfig, say: Callable[[str], object]) -> Monitoring | None:
    """What the settings ask for; None if that is nothing."""
    if config.metrics_port is None and config.otlp_endpoint is None:
        return None
    return Monitoring(config, say)
