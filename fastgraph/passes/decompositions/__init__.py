"""Operators that become others, a file for each kind; `decompose.py` says which rule sees which operators."""
