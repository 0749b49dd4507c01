"""Kafka: topics as streams. It needs the extra `kafka`."""

from operators.kafka import *
from operators.kafka import __all__ as __all__
