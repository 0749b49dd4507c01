"""Kafka: topics as streams. It needs the extra `kafka`."""

from operators.kafka.record import KafkaRecord
from operators.kafka.sink import KafkaSink
from operators.kafka.source import KafkaSource

__all__ = ["KafkaRecord", "KafkaSink", "KafkaSource"]
