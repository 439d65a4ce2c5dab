"""JSON, without the package of that name where CPython's scanner is there: importing that takes longer than a load."""

from __future__ import annotations

from typing import Any

from ..locks import undisturbed

try:
    from _json import make_scanner as _scanner
except ImportError:
    _scanner = None  # type: ignore


class _Settings:
    """What the scanner asks for: how `json.loads` reads."""

    strict, object_hook, object_pairs_hook, parse_float, parse_int = True, None, None, float, int
    memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> float:
        return float(name)  # "NaN", "Infinity", "-Infinity"


def decoded(data: bytes) -> Any:
    """What JSON in UTF-8 says. ValueError when it is none, RecursionError when it is too deep."""
    if _scanner is None:
        with undisturbed():
            import json
        return json.loads(data)
    text = data.decode()
    try:
        found, end = _scanner(_Settings)(text, 0)  # type: ignore[arg-type]
    except (StopIteration, SystemError):  # the latter where the package's own error is not imported
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than JSON")
    return found


def encoded(item: Any) -> bytes:
    """JSON of plain data, without spaces."""
    with undisturbed():
        import json
    return json.dumps(item, separators=(",", ":")).encode()
