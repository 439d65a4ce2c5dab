"""The form of a directory: its entries, and of which kinds. What numbers mean is checked where they are used."""

from __future__ import annotations

from typing import Any


class Maybe:
    """None, or this form."""

    def __init__(self, form: Any) -> None:
        self.form = form


class Either:
    """One of these forms."""

    def __init__(self, *forms: Any) -> None:
        self.forms = forms


class Each:
    """Any names, with this form each."""

    def __init__(self, form: Any) -> None:
        self.form = form


INTS = [int]
VIEW = (int, int, str, INTS, INTS)
"""saved/flat.py's View."""

FLAT = {
    "arena": int, "buffers": int, "words": int, "addresses": int, "tables": int, "steps": int,
    "parts": [(int, int, int, str)], "constants": INTS, "kernels": INTS, "inputs": [(str, VIEW)],
    "outputs": [(str, Either(int, VIEW))], "states": [(VIEW, int)],
}  # fmt: skip

PLAN = {
    "tier": str, "threads": int, "shapes": [INTS], "values": [(str, str)], "decided": [(str, Maybe(int))],
    "flat": Maybe(FLAT),
}  # fmt: skip

DIRECTORY = {
    "fastgraph": str, "sources": str, "layout": [str], "source": {"name": str, "bytes": int},
    "sections": Each((int, int, int)), "arrays": list, "plans": [PLAN],
    "images": Each({"functions": [str], "offsets": INTS, "kernels": list}), "decide": [str],
    "deciders": [([INTS], [str])],
}  # fmt: skip


def fits(item: Any, form: Any) -> bool:
    """Whether a part of a directory has a form: a type; [form], a list of such; (form, ...), a list of these; a dict of
    forms by name; or one of the classes here.
    """
    kind = type(form)
    if kind is list:
        return type(item) is list and all(fits(each, form[0]) for each in item)
    if kind is tuple:
        return type(item) is list and len(item) == len(form) and all(map(fits, item, form))
    if kind is dict:
        return type(item) is dict and all(name in item and fits(item[name], each) for name, each in form.items())
    if kind is Maybe:
        return item is None or fits(item, form.form)
    if kind is Either:
        return any(fits(item, each) for each in form.forms)
    if kind is Each:
        return type(item) is dict and all(fits(each, form.form) for each in item.values())
    return type(item) is form
