"""`python -m tests.replay` tells kernels that are the same from those that are not."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from fastgraph.kernels.isa.tiers import BY_NAME
from tests.replay import trees
from tests.replay.__main__ import compare, main
from tests.replay.collect import FAILED, text_of
from tests.replay.same import LEVELS, canonical, level

GENERIC = BY_NAME["generic"]
IR, SIMPLIFIED, MACHINE_CODE, DIFFERS = range(len(LEVELS))


def text(function: Callable[[int, int, int], int]) -> str:
    function.returns = True  # type: ignore[attr-defined]
    return text_of(lambda: function, GENERIC)


def summed(n: int, a: int, b: int) -> int:
    total = 0
    for i in range(n):
        total += a * i if i > b else b * i
    return total + 7


def summed_otherwise(count: int, x: int, y: int) -> int:
    total = 0
    for k in range(count):
        unused = y + x
        total += x * k if k > y else y * k
        unused *= 3
    return total + 7


def summed_more(n: int, a: int, b: int) -> int:
    total = 0
    for i in range(n):
        total += a * i if i >= b else b * i
    return total + 7


def level_of(a: Callable[[int, int, int], int], b: Callable[[int, int, int], int]) -> int:
    return level(text(a), text(b), GENERIC)


def test_names_and_the_order_of_blocks_and_allocas_are_no_difference() -> None:
    old = text(summed)
    head, body = old.split("\n{\n")
    entry, *blocks = re.split(r"^(?=[\w.]+:)", body.partition("\n}")[0] + "\n", flags=re.M)[1:]
    label, *slots = re.split(r"^(?=  (?:%.* = alloca|br) )", entry.rstrip("\n"), flags=re.M)
    assert len(blocks) > 3 and len(slots) > 3
    turned = [label, *reversed(slots[:-1]), slots[-1], "\n", *reversed(blocks)]
    new = f"{head}\n{{\n{''.join(turned)}}}{body.partition(chr(10) + '}')[2]}"
    new = re.sub(r'%"[^"]*', r"\g<0>.new", new)
    new = re.sub(r"^([\w.]+):", r'"\1.new":', new, flags=re.M)
    assert old != new
    assert level(old, new, GENERIC) == IR


def test_every_number_of_a_text_makes_a_difference() -> None:
    old = text(summed)
    numbers = list(re.finditer(r"(?<=[ ,])\d+(?=[,\n ])", old))
    assert len(numbers) > 20
    for found in numbers:
        new = f"{old[: found.start()]}{int(found[0]) + 1}{old[found.end() :]}"
        assert canonical(new) != canonical(old), old[: found.end()].splitlines()[-1]


def test_every_instruction_makes_a_difference() -> None:
    lines = text(summed).splitlines()
    instructions = [at for at, line in enumerate(lines) if line.startswith("  ")]
    for at in instructions:
        assert canonical("\n".join(lines[:at] + lines[at + 1 :])) != canonical("\n".join(lines)), lines[at]


def test_what_is_never_used_is_gone_after_simplification() -> None:
    assert level_of(summed, summed_otherwise) == SIMPLIFIED


def test_the_machine_may_do_the_same_for_another_text() -> None:
    plain = text(summed)
    unflagged = plain.replace(" = mul nsw i64", " = mul i64")
    assert plain != unflagged
    assert level(plain, unflagged, GENERIC) == MACHINE_CODE


def test_a_kernel_that_changed_is_named() -> None:
    assert level_of(summed, summed_more) == DIFFERS
    old, new = text(summed), text(summed_more)
    now = {"kept()": old, "changed()": new, "added()": old, "broken()": f"{FAILED}TypeError: no"}
    found = compare("generic", now, {"kept()": old, "changed()": old, "gone()": old, "broken()": old})
    assert found.text(strict=False) == (
        "generic: 5 kernels, 1 same IR, 1 differs: changed(), 1 can't be built: broken(), 1 missing: gone(), "
        "1 new: added()"
    )
    assert found.others(strict=False) == ["differs", "can't be built", "missing", "new"]


def test_strict_names_what_is_the_same_only_after_simplification() -> None:
    found = compare("generic", {"a()": text(summed)}, {"a()": text(summed_otherwise)})
    assert found.text(strict=False) == "generic: 1 kernels, 1 same after simplification"
    assert found.others(strict=False) == []
    assert found.text(strict=True) == "generic: 1 kernels, 1 same after simplification: a()"
    assert found.others(strict=True) == ["same after simplification"]


def test_another_flag_of_the_cpu_makes_a_difference() -> None:
    old = text(summed)
    new = text_of(lambda: summed, BY_NAME["avx2"])
    assert canonical(old) != canonical(new)


def test_what_cannot_be_built_says_why() -> None:
    assert text(lambda a, b, c: a.shape).startswith(f"{FAILED}KernelError: ")


@pytest.mark.parametrize(
    "args",
    (
        "", "--against", "--against no/such/commit", "--against HEAD --tier sse9", "--against HEAD --jobs 0",
        "--against HEAD --jobs many", "--against HEAD --ir", "--against --strict",
    ),
)  # fmt: skip
def test_wrong_use_exits_with_2(args: str) -> None:
    history = trees.History(lambda name: "0" * 40) if "HEAD" in args else trees.History()
    with pytest.raises(SystemExit) as exit:
        main(args.split(), history)
    assert exit.value.code == 2


@pytest.mark.slow
def test_a_tree_beside_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    exported = []

    def export(hash: str, to: Path) -> None:
        """A tree whose generic tier has vectors of twice the width at commit 1, and none of whose kernels can be made
        at commit 2.
        """
        exported.append(hash)
        for folder in ("fastgraph", "kernels"):
            shutil.copytree(
                trees.ROOT / folder, to / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        path = to / "kernels/isa/tiers.py"
        source = path.read_text(encoding="utf-8")
        assert 'Tier("generic", lanes=4' in source
        new = {"0": source, "1": source.replace('Tier("generic", lanes=4', 'Tier("generic", lanes=8'), "2": "2 +"}[hash]
        path.write_text(new, encoding="utf-8")

    def run(ref: str, *args: str) -> tuple[int, str]:
        code = main(["--against", ref, "--tier", "generic", *args], trees.History(str, export))
        return code, capsys.readouterr().out

    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    assert run("0", "--kernels", "flip(", "round(") == (0, "generic: 2 kernels, 2 same IR\n")
    assert run("1", "--kernels", "flip(") == (1, "generic: 1 kernels, 1 differs: flip()\n")
    for more in [], ["--ir"]:
        code, diff = run("1", "--show", "flip()", *more)
        assert code == 0 and diff.startswith("--- generic/flip() 1\n+++ generic/flip()\n@@ ")
    for wrong in ("2", "--kernels", "flip("), ("0", "--kernels", "no such"), ("0", "--show", "no such"):
        with pytest.raises(SystemExit) as exit:
            run(*wrong)
        assert exit.value.code == 2


def test_all_of_a_tier_is_kept_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected = []

    def collect(tree: Path, out: Path, tier: str, prefixes: list[str]) -> None:
        collected.append((tier, *prefixes))
        with ZipFile(out, "w") as file:
            file.writestr("a()", f"text of {tier}")

    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    history = trees.History(str, lambda hash, to: None, collect)
    for prefixes in ["a"], [], [], ["a"]:
        with trees.there("0", "avx2", prefixes, history) as texts:
            assert dict(texts) == {"a()": "text of avx2"}
    assert collected == [("avx2", "a"), ("avx2",)]
    for number in range(12):
        with trees.there(str(number), "generic", [], history):
            pass
    (place,) = tmp_path.iterdir()
    assert len(list(place.iterdir())) == 8
