"""The libraries that quantization needs, and nothing else of fastgraph."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import FastgraphError


def library(name: str) -> Any:
    """The module; FastgraphError, with how to install it, where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).split(".")[0]
        raise FastgraphError(f"{package}: not installed: pip install 'fastgraph-runtime[quantize]'") from None
