"""Kafka: topics as streams. It needs the extra `kafka`."""

from operators.kafka.sink import KafkaSink

__all__ = ["KafkaSink"]
