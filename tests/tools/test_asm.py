"""`fastgraph inspect --asm`: the call of a step by names, and the machine code of its kernel."""

from pathlib import Path
from typing import Any

import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.ir import Node, Value
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.slots import PROGRAM
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.isa.tiers import usable
from fastgraph.plan.program import ERROR, Ref, Step
from fastgraph.tools.asm import record_lines
from tests.nets import Net

DIGITS = str(MODEL)


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
def test_a_step_and_its_machine_code(isa: str, capsys: Any) -> None:
    plan = fg.load(DIGITS, isa=isa, threads=1).plan
    number = next(i for i, step in enumerate(plan.program.steps) if step.node.op == "dense")
    step = plan.program.steps[number]
    assert isinstance(step, Step)
    assert main(["inspect", DIGITS, "--isa", isa, "--threads", "1", "--asm", str(number)]) == 0
    head, kernel, *lines = capsys.readouterr().out.splitlines()
    assert head == f"step {number}: dense -> {step.node.out.name}: float32[1,10]"
    assert kernel == f"kernel {step.kernel} for {isa}"
    record, code = lines[: lines.index("")], "\n".join(lines[lines.index("") :])
    assert [line.split()[0] for line in record] == list(rows()[step.kernel.name].args)
    numbers = {name: arg for name, arg in zip(rows()[step.kernel.name].args, step.args, strict=True)}
    assert dict(line.split()[:2] for line in record)["n"] == str(numbers["n"]) == "10"
    assert "ret" in code and "kernel:" in code
    assert ("ymm" in code or "zmm" in code) == (isa != "generic")


def test_slots_by_name_value_and_meaning() -> None:
    """Those behind the record's own go by their numbers."""
    x, made = Value("x"), Value("y")
    args = (Ref(x), Ref(3, 8), 5, ERROR, *range(7), Ref(x, 64))
    lines = record_lines(Step(Kernel("execute"), args, Node("relu", [x], [made])))
    assert [line.split()[0] for line in lines] == [*PROGRAM, "11"]
    assert lines[0].split(None, 2) == ["table", "&x", PROGRAM["table"]]
    assert lines[1].split()[1:5] == ["&constant", "3", "+", "8"] and lines[2].split()[1] == "5"
    assert lines[3].split()[1] == "&error" and lines[11].split()[1:] == ["&x", "+", "64"]


def test_steps_without_machine_code(capsys: Any, tmp_path: Path) -> None:
    net = Net()
    x = net("Relu", net.input("x", (4, 4)))
    net.output(net("Sigmoid", net("Mul", net.input("z", ()), net("Det", x))))
    mixed = tmp_path / "mixed.onnx"
    mixed.write_bytes(net.bytes())
    net = Net()
    net.output(net("Det", net.input("x", (4, 4))))
    alone = tmp_path / "alone.onnx"
    alone.write_bytes(net.bytes())
    names = [step.node.op for step in fg.load(str(mixed)).plan.program.steps]
    at = names.index("det")
    for path, number, says in (
        (mixed, at, f"NumPy computes step {at} (det): steps with machine code are "),
        (mixed, len(names), f"there is no step {len(names)}: steps with machine code are "),
        (alone, 0, "no step has machine code: NumPy computes all 1"),
    ):
        assert main(["inspect", str(path), "--asm", str(number)]) == 2
        assert says in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["inspect", DIGITS, "--asm", "-1"])
    assert "expected the number of a step, found '-1'" in capsys.readouterr().err
