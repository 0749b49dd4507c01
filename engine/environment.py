"""Settings of jobs from the environment: `OKA_PARALLELISM=4` is `parallelism`, and so for each.

They win over what code and files say, and the command line wins over them. A variable without a
text is as if it was not set.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any, get_type_hints

from engine.arguments import value_of
from engine.config import JobConfig
from engine.errors import ConfigError, did_you_mean

logger = logging.getLogger("oka")


def configured(
    below: Mapping[str, Any],
    above: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] = os.environ,
) -> JobConfig:
    """The config of the settings `below`, over them those of the environment, then those `above`.

    >>> configured({"batch_size": 10, "parallelism": 2}, variables={"OKA_PARALLELISM": "3"})
    ... # doctest: +ELLIPSIS
    JobConfig(name='job', runtime='local', parallelism=3, batch_size=10, ...)
    """
    above = above or {}
    between = _given(variables, above)
    try:
        return JobConfig.of({**below, **between, **above})
    except ConfigError as error:
        name = error.message.partition(" is ")[0]
        if name not in between or error.hint:
            raise
        raise ConfigError(error.message, f"the variable {variable_of(name)} says so") from None


def settings_of(texts: Mapping[str, str], named: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Values of settings in their types; `named` has what each is called in errors, if not so.

    Unknown names keep their texts.
    """
    types = get_type_hints(JobConfig)
    return {
        key: value_of((named or {}).get(key, key), text, types[key]) if key in types else text
        for key, text in texts.items()
    }


def variable_of(name: str) -> str:
    """The variable of the setting."""
    return f"{_PREFIX}{name.upper()}"


def _given(variables: Mapping[str, str], above: Mapping[str, Any]) -> dict[str, Any]:
    names = {variable_of(field.name): field.name for field in dataclasses.fields(JobConfig)}
    texts = {}
    for variable, text in variables.items():
        if not variable.startswith(_PREFIX) or not text:
            continue
        if (name := names.get(variable)) is not None:
            if name not in above:
                texts[name] = text
        elif meant := did_you_mean(variable[len(_PREFIX) :].lower(), names.values()):
            logger.warning("%s sets nothing: %s", variable, meant.strip())
    return settings_of(texts, {name: variable for variable, name in names.items()})


_PREFIX = "OKA_"
