"""Operators that compute each element of the result on its own, and those that go along an axis."""

from . import arg_extreme, cast, elementwise, reduce, requantize, select, softmax, table  # noqa: F401
