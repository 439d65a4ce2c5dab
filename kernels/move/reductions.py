"""What a scatter makes of what is there and what comes, by element type."""

from __future__ import annotations

from ..lang import Value, choose, is_nan


def combined(operation: str, there: Value, comes: Value) -> Value:
    """One of OPERATIONS on one of NUMBERS. A NaN stays; whole numbers are not divided: what is there stays."""
    real = there.type.real
    match operation:
        case "div":
            return there / comes if real else there
        case "add":
            return there + comes
        case "mul":
            return there * comes
    less = operation == "min"
    if not real:
        return choose(there < comes if less else there > comes, there, comes)
    best = choose(~(there >= comes) if less else ~(there <= comes), there, comes)
    return choose(is_nan(comes), comes, best)
