"""The nodes of decision trees: what files say of them, in one form, and the tables by which rows go down them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
LEAF = -1
INDEX = np.int32
"""Of the tables' rows and of columns."""


def listed(numbers: Any) -> np.ndarray:
    return np.asarray(numbers or [], np.int64)


@dataclass
class Branches:
    """Nodes by number, with leaves among or behind them: a row goes to `yes` if its feature is at most the value.

    `features` are -1 at leaves. `tracks`: a NaN goes to `yes`, and not to `no`.
    """

    features: np.ndarray
    values: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    tracks: np.ndarray
    roots: np.ndarray

    @staticmethod
    def of_nodes(
        c: Call, x: Value, attrs: dict[str, Any]
    ) -> tuple[Branches, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
        """Trees of the older operators' attributes; and which number the nodes of some trees have."""
        trees, ids = listed(attrs["nodes_treeids"]), listed(attrs["nodes_nodeids"])
        n = len(trees)
        lists = {k: listed(attrs[f"nodes_{k}"]) for k in ("featureids", "truenodeids", "falsenodeids")}
        exact = attrs["nodes_values_as_tensor"]
        values = np.asarray(attrs["nodes_values"] or [], np.float32) if exact is None else exact
        modes = attrs["nodes_modes"] or ()
        if not n or any(len(part) != n for part in (ids, *lists.values(), values, modes)):
            c.fail(f"expected {n} numbers in each of its lists of nodes, one for each of nodes_treeids")
        keys = (trees << 32) + ids
        order = np.argsort(keys, kind="stable")

        def place(trees: np.ndarray, ids: np.ndarray) -> np.ndarray:
            wanted = (trees << 32) + ids
            at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), n - 1)]
            if (keys[at] != wanted).any():
                c.fail("it names a node that it does not have")
            return at

        leaf = np.array([mode == "LEAF" for mode in modes])
        unknown = set(modes) - {"LEAF", *MODES[:-1]}
        if unknown:
            c.unsupported(f"with nodes of mode {sorted(unknown)[0]!r}")
        codes = np.array([0 if mode == "LEAF" else MODES.index(mode) for mode in modes])
        yes, no = (place(trees, np.where(leaf, ids, lists[k])) for k in ("truenodeids", "falsenodeids"))
        features = np.where(leaf, LEAF, lists["featureids"])
        is_root = np.ones(n, bool)
        is_root[yes[~leaf]] = is_root[no[~leaf]] = False
        tracks = listed(attrs["nodes_missing_value_tracks_true"]).astype(bool)
        tracks = tracks if len(tracks) == n else np.zeros(n, bool)
        found = Branches(features, _real(values, x), yes, no, tracks, np.flatnonzero(is_root))
        return found._at_most(c, codes, None), place

    @staticmethod
    def of_ensemble(c: Call, x: Value, attrs: dict[str, Any], leaves: int) -> Branches:
        """Of TreeEnsemble's attributes: leaf k is node number n + k. A tree that is one leaf has a root both of whose
        children are that leaf.
        """
        features, values = listed(attrs["nodes_featureids"]), _real(np.asarray(attrs["nodes_splits"]), x)
        codes, n = np.asarray(attrs["nodes_modes"]).astype(np.int64), len(features)
        ends = {k: listed(attrs[f"nodes_{k}leafs"]).astype(bool) for k in ("true", "false")}
        to = {k: listed(attrs[f"nodes_{k}nodeids"]) for k in ("true", "false")}
        roots = listed(attrs["tree_roots"])
        if not n or any(len(part) != n for part in (values, codes, *ends.values(), *to.values())):
            c.fail(f"expected {n} numbers in each of its lists of nodes, one for each of nodes_featureids")
        yes, no = (np.where(ends[k], to[k] + n, to[k]) for k in ("true", "false"))
        if min(yes.min(), no.min()) < 0 or max(yes.max(), no.max()) >= n + leaves:
            c.fail("it names a node or leaf that it does not have")
        if not len(roots) or roots.min() < 0 or roots.max() >= n or (codes < 0).any() or (codes >= len(MODES)).any():
            c.fail("expected roots among its nodes, and modes 0 to 6")
        tracks = listed(attrs["nodes_missing_value_tracks_true"]).astype(bool)
        tracks = tracks if len(tracks) == n else np.zeros(n, bool)
        own = np.arange(n, n + leaves)
        found = Branches(
            np.r_[features, np.full(leaves, LEAF)], np.r_[values, np.zeros(leaves, values.dtype)],
            np.r_[yes, own], np.r_[no, own], np.r_[tracks, np.zeros(leaves, bool)], roots,
        )  # fmt: skip
        return found._at_most(c, np.r_[codes, np.zeros(leaves, np.int64)], attrs["membership_values"])

    def _at_most(self, c: Call, codes: np.ndarray, members: np.ndarray | None) -> Branches:
        """The same trees, whose nodes were of those modes; equality takes two nodes."""
        self._spread_members(c, codes == MODES.index("BRANCH_MEMBER"), members)
        codes = np.r_[codes, np.full(len(self.features) - len(codes), MODES.index("BRANCH_EQ"))]
        codes = np.where(codes == MODES.index("BRANCH_MEMBER"), MODES.index("BRANCH_EQ"), codes)
        branch = self.features >= 0
        below = _normal(np.nextafter(self.values, np.array(-np.inf, self.values.dtype)))
        turned = branch & np.isin(codes, [MODES.index(m) for m in ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ")])
        self.yes, self.no = np.where(turned, self.no, self.yes), np.where(turned, self.yes, self.no)
        equal = branch & np.isin(codes, [MODES.index("BRANCH_EQ"), MODES.index("BRANCH_NEQ")])
        self.tracks = np.where(codes == MODES.index("BRANCH_NEQ"), False, self.tracks ^ (turned & ~equal))
        strict = branch & np.isin(codes, [MODES.index("BRANCH_LT"), MODES.index("BRANCH_GTE")])
        self.values = np.where(strict, below, _normal(self.values))
        at = np.flatnonzero(equal)
        second = len(self.features) + np.arange(len(at))
        yes, no, values = self.yes[at], self.no[at], below[at]
        self.yes[at] = second
        self._append(self.features[at], values, no, yes, np.zeros(len(at), bool))
        return self

    def _spread_members(self, c: Call, which: np.ndarray, members: np.ndarray | None) -> None:
        """Nodes that ask for one of a set become chains of nodes that ask for one value each."""
        if not which.any():
            return
        numbers = np.asarray([] if members is None else members, self.values.dtype)
        sets = np.split(numbers, np.flatnonzero(np.isnan(numbers)) + 1)[: which.sum()]
        if len(sets) < which.sum():
            c.fail(f"expected {which.sum()} sets in membership_values, found {len(sets)}")
        for at, values in zip(np.flatnonzero(which).tolist(), sets, strict=True):
            values = values[~np.isnan(values)]
            if not len(values):
                c.unsupported("with a node that asks for one of no values")
            self.values[at] = values[0]
            for value in values[1:]:
                number = len(self.features)
                self._append([self.features[at]], [value], [self.yes[at]], [self.no[at]], [self.tracks[at]])
                self.no[at], at = number, number

    def _append(self, *parts: Any) -> None:
        for name, part in zip(("features", "values", "yes", "no", "tracks"), parts, strict=True):
            old = getattr(self, name)
            setattr(self, name, np.r_[old, np.asarray(part, old.dtype)])


@dataclass
class Tables:
    """A row of each table is a node; the two children of one are neighbors, the one for larger features first.

    `children` has the first child's row, for leaves their own. `features` are columns of a matrix that begins with a
    column of 0, which is all that leaves ask for; `columns` of x follow, and if some nodes want `missing` numbers on
    their other side the same columns with these replaced. `nodes`: which node a row is.
    """

    features: np.ndarray
    thresholds: np.ndarray
    children: np.ndarray
    nodes: np.ndarray
    roots: np.ndarray
    columns: np.ndarray
    missing: bool
    depth: int


def tables(c: Call, b: Branches) -> Tables:
    """Tables with thresholds of the values' type."""
    branch = np.flatnonzero(b.features >= 0)
    first = np.zeros(len(b.features), np.int64)
    first[branch] = len(b.roots) + 2 * np.arange(len(branch))
    nodes = np.r_[b.roots, np.stack([b.no[branch], b.yes[branch]], 1).reshape(-1)]
    leaf = b.features[nodes] < 0
    children = np.where(leaf, np.arange(len(nodes)), first[nodes]).astype(INDEX)
    columns = np.unique(b.features[branch]) if len(branch) else np.zeros(1, np.int64)
    features = 1 + np.searchsorted(columns, b.features[nodes]) + len(columns) * b.tracks[nodes]
    thresholds = np.where(leaf, -np.inf, b.values[nodes]).astype(b.values.dtype)
    return Tables(
        np.where(leaf, 0, features).astype(INDEX), thresholds, children, nodes, np.arange(len(b.roots)), columns,
        bool(b.tracks[branch].any()), _depth(c, len(b.roots), leaf, children),
    )  # fmt: skip


def _depth(c: Call, roots: int, leaf: np.ndarray, children: np.ndarray) -> int:
    """How many times a row goes down; 1 at least."""
    front, depth = np.arange(roots), 0
    while not leaf[front].all():
        down = children[front[~leaf[front]]]
        front, depth = np.unique(np.r_[down, down + 1]), depth + 1
        if depth > len(leaf):
            c.fail("its nodes go round in a circle")
    return max(depth, 1)


def _real(values: np.ndarray, x: Value) -> np.ndarray:
    """Thresholds in float64 if they or x are, else in float32."""
    return values.astype(np.float64 if np.float64 in (values.dtype, x.type.dtype) else np.float32)


def _normal(values: np.ndarray) -> np.ndarray:
    """The greatest numbers that are at most the values and not denormal, as denormals count as 0 in a run."""
    tiny = np.finfo(values.dtype).tiny
    floor = np.where(values < 0, -tiny, 0).astype(values.dtype)
    return np.where(np.abs(values) < tiny, floor, values)
