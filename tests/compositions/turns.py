"""A model whose extents are open, at one shape, another one, and the first again: each as if it were the only one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import fastgraph as fg
from fastgraph.frontends import read
from fastgraph.passes.specialize import specialize
from tests.nets import by_reference

from .afford import is_dry, load

if TYPE_CHECKING:
    from .check import Arrays, Subject

Feeds = dict[str, np.ndarray]


def larger(source: bytes, feeds: Feeds, times: int, more: int) -> Feeds:
    """Feeds with larger extents where the file leaves them open: the same numbers over and over."""
    open_ = {
        v.name: [i for i, d in enumerate(v.type.shape or ()) if not isinstance(d, int)] for v in read(source).inputs
    }
    made = {name: array.copy() for name, array in feeds.items()}
    for name, axes in open_.items():
        for axis in axes:
            array = made[name]
            d = array.shape[axis]
            made[name] = array.take(np.arange(times * d + more)[::-1] % d, axis)
    return made


def turns(subject: Subject, growth: tuple[int, int], first: Arrays) -> None:
    """Differs unless a shape gives the same bits whatever was planned before, near what references make of it."""
    from .check import run, same_bits

    other = replace(subject, feeds=larger(subject.source, subject.feeds, *growth), scale=2 * subject.scale)
    other.expected = engines(other)
    alone = load(subject.source)
    try:
        wanted = run(alone, other)
    except fg.InputError:
        return  # the network does not take this shape
    _near(other, wanted, alone)
    model = load(subject.source)
    dry = [is_dry(alone)]
    for turn, (given, want) in enumerate(((subject, first), (other, wanted), (subject, first))):
        found = run(model, given)
        dry.append(is_dry(model))
        if len(set(dry)) == 1:
            same_bits(found, want, f"open: turn {turn}")
    found = run(alone, subject)
    if len({*dry, is_dry(alone)}) == 1:
        same_bits(found, first, "open: after a larger one")


def engines(subject: Subject) -> dict[str, Arrays]:
    """What others say, before anything else is run: they may write into what they are fed."""
    try:
        return subject.engine(subject.source, subject.feeds) if subject.engine else {}
    except Exception:
        return {}  # they do not take this shape


def _near(subject: Subject, found: Arrays, model: fg.Model) -> None:
    from .check import agree

    graph = read(subject.source)
    specialize(graph, {name: array.shape for name, array in subject.feeds.items()})
    for name, wanted in {"references": by_reference(graph, subject.feeds), **subject.expected}.items():
        agree(subject, found, wanted, f"open: plan and {name}", model)
