"""Operators that compute each element of the result on its own, and those that go along an axis."""
