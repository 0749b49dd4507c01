"""Tests in this process: of a pipeline, and of your connectors."""

from engine.testing import *
from engine.testing import __all__ as __all__
