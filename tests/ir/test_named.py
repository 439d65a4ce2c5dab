"""Named tuples as typing has them."""

import copy
import pickle

import pytest

from fastgraph.named import NamedTuple


class Point(NamedTuple):
    x: int
    y: int = 2
    name: str = ""

    @property
    def sum(self) -> int:
        return self.x + self.y


class Named(Point):
    pass


def test_fields() -> None:
    point = Point(1)
    assert point == (1, 2, "") and point.sum == 3 and (point.x, point.y, point.name) == (1, 2, "")
    assert Point(1, 2, "") == Point(y=2, x=1) and hash(point) == hash((1, 2, ""))
    assert point._replace(y=5) == (1, 5, "") and point._asdict() == {"x": 1, "y": 2, "name": ""}
    assert Point._fields == ("x", "y", "name") and repr(point) == "Point(x=1, y=2, name='')"
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("given, named", [((), {}), ((1, 2, "", 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_wrong_arguments(given: tuple, named: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(TypeError, match="Point takes x, y, name"):
        Point(*given, **named)


def test_it_never_changes() -> None:
    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]


def test_copies_and_subclasses() -> None:
    assert pickle.loads(pickle.dumps(Point(1))) == copy.copy(Point(1)) == Named(1) and Named(1).sum == 3
