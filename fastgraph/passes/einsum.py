"""Einsum as products of matrices: transposes and reshapes around matmul, reductions before it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Node, Value
from ..ops.matmul import einsum_terms
from .moves import shaped, turn
from .rewrite import Sweep, constant, sees

KINDS = "iuf"
Labels = tuple[str, ...]


class Term(NamedTuple):
    """An operand, and what its axes are called."""

    value: Value
    labels: Labels

    def extents(self, labels: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.value.type.dims[self.labels.index(label)] for label in labels)


@sees("einsum")
def einsum(state: Sweep, node: Node) -> bool:
    """Given ``y = einsum(a, b) {bqhd,bkhd->bhqk}``; result ``y = matmul(transpose(a), transpose(b))``.

    Operands are taken in turn; no axis is named twice in one.
    """
    terms = _named(node)
    if terms is None:
        return False
    wanted = _labels(einsum_terms(node, len(node.inputs))[1], len(node.out.type.dims))
    first, *rest = _spread(state, node, terms)
    for i, term in enumerate(rest):
        later = {label for each in rest[i + 1 :] for label in each.labels} | set(wanted)
        first = _product(state, node, first, term, later)
    first = _summed(state, node, first, set(wanted))
    state.replace(node.out, _turned(state, node, first, wanted).value)
    return True


def _labels(term: str, rank: int) -> Labels:
    """A name for each axis; those that the dots stand for are numbered from the last."""
    head, dots, tail = term.partition("...")
    stack = range(rank - len(head) - len(tail)) if dots else ()
    return (*head, *(f"{len(stack) - i}." for i in stack), *tail)


def _named(node: Node) -> list[Term] | None:
    """The operands, where kernels may multiply them."""
    values = [v for v in node.inputs if v is not None]
    dtype = node.out.type.dtype
    if dtype is None or dtype.kind not in KINDS:
        return None
    if not all(v.type.concrete and v.type.size for v in (*values, node.out)):
        return None
    terms, _ = einsum_terms(node, len(values))
    found = [Term(v, _labels(t, len(v.type.dims))) for v, t in zip(values, terms, strict=True)]
    return found if all(len(set(term.labels)) == len(term.labels) for term in found) else None


def _spread(state: Sweep, node: Node, terms: Sequence[Term]) -> list[Term]:
    """The same without the axes of 1 that others have more of."""
    most: dict[str, int] = {}
    for term in terms:
        for label, n in zip(term.labels, term.value.type.dims, strict=True):
            most[label] = max(n, most.get(label, 1))
    found = []
    for term in terms:
        labels = tuple(x for x, n in zip(term.labels, term.value.type.dims, strict=True) if n == most[x])
        found.append(Term(shaped(state, node, term.value, term.extents(labels)), labels))
    return found


def _summed(state: Sweep, node: Node, term: Term, kept: Collection[str]) -> Term:
    """The sum over axes that nobody wants."""
    axes = [i for i, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    labels = tuple(label for label in term.labels if label in kept)
    type_ = term.value.type.with_shape(term.extents(labels))
    at = constant(node.out, np.array(axes, np.int64), "axes")
    return Term(state.add("reduce_sum", [term.value, at], type_, node, keepdims=0, noop_with_empty_axes=0), labels)


def _turned(state: Sweep, node: Node, term: Term, labels: Labels) -> Term:
    return Term(turn(state, node, term.value, tuple(term.labels.index(label) for label in labels)), labels)


def _product(state: Sweep, node: Node, a: Term, b: Term, later: Collection[str]) -> Term:
    """a times b, summed over the axes of both that are not wanted later."""
    a = _summed(state, node, a, {*b.labels, *later})
    b = _summed(state, node, b, {*a.labels, *later})
    both = tuple(label for label in a.labels if label in b.labels and label in later)
    inner = tuple(label for label in a.labels if label in b.labels and label not in later)
    rows, columns = (tuple(x for x in s.labels if x not in t.labels) for s, t in ((a, b), (b, a)))
    if not inner:
        return _spread_product(state, node, a, b, columns)
    stack, m, k, n = a.extents(both), prod(a.extents(rows)), prod(a.extents(inner)), prod(b.extents(columns))
    left = shaped(state, node, _turned(state, node, a, (*both, *rows, *inner)).value, (*stack, m, k))
    right = shaped(state, node, _turned(state, node, b, (*both, *inner, *columns)).value, (*stack, k, n))
    y = state.add("matmul", [left, right], node.out.type.with_shape((*stack, m, n)), node)
    labels = (*both, *rows, *columns)
    return Term(shaped(state, node, y, (*stack, *a.extents(rows), *b.extents(columns))), labels)


def _spread_product(state: Sweep, node: Node, a: Term, b: Term, columns: Labels) -> Term:
    """a as it lies times b, along the axes of a, then those that b alone has."""
    labels = (*a.labels, *columns)
    turned = _turned(state, node, b, tuple(x for x in labels if x in b.labels))
    dims = dict(zip(turned.labels, turned.value.type.dims, strict=True))
    left = shaped(state, node, a.value, (*a.value.type.dims, *[1] * len(columns)))
    right = shaped(state, node, turned.value, tuple(dims.get(label, 1) for label in labels))
    type_ = node.out.type.with_shape((*a.value.type.dims, *b.extents(columns)))
    return Term(state.add("mul", [left, right], type_, node), labels)
