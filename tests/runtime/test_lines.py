"""Lines that shapes lie on, and the room around them."""

import numpy as np
import pytest

from fastgraph.ir import MOST_LENGTH, Open, open_axes
from fastgraph.runtime.lengths import Lengths
from fastgraph.runtime.lines import MOST_ALONE, MOST_EACH, Path, line_through


def path(*shapes: tuple[tuple[int, ...], ...]) -> Path:
    line = line_through(shapes[0], shapes[1])
    assert line is not None
    found = Path(line, shapes[0])
    for each in shapes[1:]:
        found.meet(found.common(each))
    return found


@pytest.mark.parametrize("step", [1, 7, 32])
@pytest.mark.parametrize("groups", [1, 2])
def test_room_has_the_lengths_that_are_fed(groups: int, step: int) -> None:
    """And no more of them than tables may have."""
    rng, most = np.random.default_rng(0), MOST_ALONE if groups == 1 else MOST_EACH
    line = path(((step, 3 * step),), ((2 * step, (4 if groups == 1 else 8) * step),))
    for n in [*range(1, 70), *rng.integers(1, MOST_LENGTH // step - 4, 400)]:
        shapes = ((int(n) * step, (int(n) + 2) * step),)
        wide = line.around(line.common(shapes), by_steps=step > 1)
        for d, (_, room) in zip(shapes[0], open_axes(wide[0]) if wide else (), strict=False):
            assert isinstance(room, Open) and 0 < room.least <= d <= room.most
            assert (d - room.least) % room.step == 0 == (room.most - room.least) % room.step
            assert (room.most - room.least) // room.step <= most


def test_what_is_no_length() -> None:
    line = path(((4, 5),), ((6, 7),))
    for shapes in (((0, 1),), ((-1, 0),), ((4, 6),), ((4,),), ((MOST_LENGTH, MOST_LENGTH + 1),)):
        assert line.common(shapes) == ()
    assert line.common(((9, 10),)) == (9,)
    assert line_through(((1, 2, 3),), ((2, 4, 6),)) is None, "three numbers"


def test_a_line_of_one_group_is_taken_when_shapes_keep_to_it() -> None:
    lengths = Lengths(part=True)
    lengths.paid(())

    def groups(batch: int, words: int) -> int:
        wide = lengths.instead(((batch, words),), kept=False)
        return 0 if wide is None else len(open_axes(wide[0]))

    assert [groups(2, 20), groups(3, 25), groups(5, 27)] == [0, 2, 2]
    assert [groups(5, n) for n in (30, 33, 37, 40, 42)][-1] == 1
    assert groups(4, 42) == 2


def test_lengths_by_steps_are_preferred_where_they_are_likely() -> None:
    lengths = Lengths(part=True)
    lengths.paid(())
    steps = []
    for n in (320, 352, 416, 448, 480, 512, 544, 384, 353):
        wide = lengths.instead(((1, n),), kept=False)
        steps += [d.step for _, d in open_axes(wide[0])] if wide else [0]
    assert steps[1] == 1 and steps[-2] == 32 and steps[-1] == 1


@pytest.mark.parametrize("step", [1, 32])
def test_room_near_lengths_is_a_quarter_of_them_at_most(step: int) -> None:
    line = path(((step, 3 * step),), ((2 * step, 4 * step),))
    for n in range(1, 300):
        wide = line.around((n * step,), by_steps=step > 1, near=True)
        if wide is None:
            assert n <= 8, "a plan for one length"
        for d in (d for _, d in open_axes(wide[0]) if d.more == 0) if wide else ():
            assert d.least <= n * step <= d.most and (n * step - d.least) % step == 0
            assert 4 * (d.most - d.least) <= n * step


def test_runs_that_lost_what_two_plans_take_get_room_near_them() -> None:
    """And what was lost is paid only once."""
    lengths = Lengths(part=True)
    lengths.paid(())

    def most(n: int, work: float) -> int:
        shapes = ((n, 3),)
        wide = lengths.instead(shapes, kept=False)
        if wide is None:
            lengths.paid(shapes)
            return 0
        lengths.ran(wide, shapes, work)
        return int(open_axes(wide[0])[0][1].most)

    assert [most(n, 1.6) for n in (9, 8, 11, 13)] == [0, 32, 32, 14]
    assert [most(n, 0.0) for n in (10, 9, 5)] == [32, 32, 32]


def test_room_that_does_not_pay_is_tried_nearer() -> None:
    lengths = Lengths(part=True)
    lengths.paid(())
    shapes = [((n, 3),) for n in (9, 10, 11, 12, 13)]
    lengths.instead(shapes[0], kept=False)
    wide = lengths.instead(shapes[1], kept=False)
    assert wide is not None
    lengths.refuse(wide, near=True)
    near = lengths.instead(shapes[2], kept=False)
    assert near is not None and open_axes(near[0])[0][1].most == 12
    lengths.refuse(near, near=True)
    assert lengths.instead(shapes[3], kept=False) is None
    assert lengths.instead(shapes[4], kept=False) is not None
