"""The command line: what it prints, what it writes, how it fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from tests.nets import Net
from tests.processes import python

DIGITS = str(MODEL)


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """y = relu(x) for x float32[N,3]."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "open.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The stdout of a command that succeeds."""
    assert main(argv) == 0
    return capsys.readouterr().out


def failure(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The message of a command that fails: one line, no traceback."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    return err


# -- run


def test_run_reads_inputs_and_writes_outputs(capsys: Any, tmp_path: Path) -> None:
    image = held_out()[0][0]
    np.save(tmp_path / "image.npy", image)
    out = tmp_path / "out.npz"
    text = printed(
        capsys, "run", DIGITS, "--input", f"image={tmp_path}/image.npy", "--output", str(out), "--repeat", "1"
    )
    expected = fg.load(DIGITS).run({"image": image})["probabilities"]
    with np.load(out) as written:
        assert written.files == ["probabilities"]
        np.testing.assert_array_equal(written["probabilities"], expected)
    assert "float32[1,10]" in text and f"[0, {expected.argmax()}]" in text and "p50" in text


def test_run_reads_an_npz_and_prints_json(capsys: Any, tmp_path: Path, open_model: str) -> None:
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    np.savez(tmp_path / "inputs.npz", x=x)
    result = json.loads(printed(capsys, "run", open_model, "--input", f"{tmp_path}/inputs.npz", "--json"))
    assert result["runs"] == 10 and result["p50_ms"] > 0 and result["arena_bytes"] >= 2 * x.nbytes
    y = result["outputs"]["y"]
    assert (y["shape"], y["dtype"], y["argmax"]) == ([2, 3], "float32", [1, 2])
    assert (y["min"], y["max"], y["mean"]) == (0.0, 6.0, 2.5)


def test_run_on_random_inputs_of_a_given_shape(capsys: Any, open_model: str) -> None:
    assert "float32[5,3]" in printed(capsys, "run", open_model, "--random", "--shape", "x=5,3", "--isa", "generic")
    assert "float32[1,3]" in printed(capsys, "run", open_model, "--random")


# -- inspect


def test_inspect_shows_the_plan(capsys: Any) -> None:
    text = printed(capsys, "inspect", DIGITS)
    for part in ("pytorch", "ai.onnx 17", "float32[1,1,8,8]", "probabilities", "depthwise", "softmax", "arena"):
        assert part in text, part
    assert "numpy" not in text


def test_inspect_json_agrees_with_the_model(capsys: Any) -> None:
    found = json.loads(printed(capsys, "inspect", DIGITS, "--json", "--threads", "1"))
    model = fg.load(DIGITS, threads=1)
    assert found["inputs"] == [{"name": "image", "shape": [1, 1, 8, 8], "dtype": "float32"}]
    assert found["plan"]["arena"]["bytes"] == model.arena_bytes >= found["plan"]["arena"]["bound"]
    assert len(found["plan"]["steps"]) == len(model.plan.program.steps)
    assert found["plan"]["kernels"] == [str(kernel) for kernel in model.plan.kernels()]
    assert {"image", "probabilities"} <= {buffer["name"] for buffer in found["plan"]["buffers"]}
    assert all(b["offset"] + b["bytes"] <= model.arena_bytes for b in found["plan"]["buffers"])


def test_inspect_counts_multiply_adds(capsys: Any) -> None:
    steps = json.loads(printed(capsys, "inspect", DIGITS, "--json"))["plan"]["steps"]
    pixels = {1: 64, 2: 16}
    convolutions = pixels[1] * 9 * (16 + 16 * 32)
    blocks = pixels[2] * (9 * 32 + 32 * 32 + 9 * 32 * 48 + 9 * 48 + 48 * 48)
    assert sum(step["macs"] for step in steps) == convolutions + blocks + 48 * 10


def test_inspect_draws_the_arena_and_prints_graphs(capsys: Any) -> None:
    assert "one column =" in printed(capsys, "inspect", DIGITS, "--memory")
    assert printed(capsys, "inspect", DIGITS, "--graph").startswith("graph ")
    stages = printed(capsys, "inspect", DIGITS, "--stages")
    names = [line.removeprefix("-- ") for line in stages.splitlines() if line.startswith("-- ")]
    assert names[:2] == ["read", "specialize"] and "norms" in names
    assert any(re.fullmatch(r"fuse: .*\d as_chain.*", name) for name in names)  # the rules that were applied


def test_inspect_takes_an_open_batch_for_granted_as_others_do(capsys: Any, open_model: str) -> None:
    for command in (["run", "--random"], ["inspect"], ["inspect", "--memory"], ["inspect", "--asm", "0"],
                    ["inspect", "--graph"], ["inspect", "--stages"],
                    ["bench", "--runs", "1", "--allow-noise"], ["verify"]):  # fmt: skip
        assert main([command[0], open_model, *command[1:]]) == 0
        out, err = capsys.readouterr()
        assert err == f"{open_model}: taken for granted: --shape x=1,3\n"
        assert main([command[0], open_model, *command[1:], "--shape", "x=1,3"]) == 0
        given, err = capsys.readouterr()
        assert not err and (given == out or "--memory" not in command)
    assert "float32[2,3]" in printed(capsys, "inspect", open_model, "--shape", "x=2,3")


def test_inspect_of_open_shapes_says_how_to_close_them(capsys: Any, tmp_path: Path) -> None:
    net = Net()
    net.output(net("Relu", net.input("x", ("n", "m"))))
    (tmp_path / "net.onnx").write_bytes(net.bytes())
    path = str(tmp_path / "net.onnx")
    assert "--shape x=..." in printed(capsys, "inspect", path)
    assert json.loads(printed(capsys, "inspect", path, "--json"))["plan"] is None
    assert "--shape x=..." in failure(capsys, "inspect", path, "--memory")
    assert "None" not in (text := printed(capsys, "inspect", path, "--stages")) and "%" in text
    assert "float32[2,3]" in printed(capsys, "inspect", path, "--shape", "x=2,3")


# -- several files


def test_one_bad_file_does_not_lose_the_others(capsys: Any, tmp_path: Path, open_model: str) -> None:
    bad, report = tmp_path / "bad.onnx", tmp_path / "report.json"
    bad.write_bytes(b"nothing")
    argv = [
        DIGITS,
        str(bad),
        "--shape",
        "x=2,3",
        "--runs",
        "1",
        "--allow-noise",
        "--json",
        str(report),
        open_model,
        "no/such.onnx",
    ]
    assert main(["bench", *argv]) == 2
    out, err = capsys.readouterr()
    assert "digits.onnx" in out and open_model in out and "bad.onnx" in err and "no/such.onnx" in err
    written = json.loads(report.read_text())
    assert [each["model"] for each in written["models"]] == [DIGITS, open_model]
    assert list(written["failed"]) == ["no/such.onnx", str(bad)], "what is not there is said first"
    assert main(["verify", str(bad), DIGITS, "--json"]) == 2
    assert [each["ok"] for each in json.loads(capsys.readouterr().out)] == [True]


def test_a_shape_is_for_the_files_that_have_the_input(capsys: Any, open_model: str) -> None:
    assert "no model has" in failure(capsys, "bench", DIGITS, open_model, "--runs", "1", "--shape", "z=2,3")
    assert open_model in failure(capsys, "bench", open_model, "--runs", "1", "--shape", "z=2,3")
    named = failure(capsys, "bench", open_model, "--runs", "1", "--shape", f"{open_model}:z=2,3")
    assert "'z'" in named, "that file has no such input"


def test_where_nothing_can_be_written_is_said_first(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fastgraph.loading.load", None)
    for path in (tmp_path, tmp_path / "no" / "x"):
        assert str(path) in failure(capsys, "bench", DIGITS, "--json", str(path))
        assert str(path) in failure(capsys, "run", DIGITS, "--random", "--output", str(path))


@pytest.mark.parametrize("words", [
    ["run", "M", "--random", "--output", "full.npz"], ["run", "M", "--random", "-o", "full.npy"],
    ["report", "M", "--runs", "1", "-o", "full.html"], ["compare", "M", "M", "--html", "full.html"],
    ["profile", "M", "--runs", "1", "--trace", "full.json"], ["bench", "M", "--runs", "1", "--csv", "full.csv"],
    ["bench", "M", "--runs", "1", "--json", "full.json"], ["bench", "M", "--runs", "1", "--html", "full.html"],
])  # fmt: skip
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_told_by_the_files_name(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(words[-1]).symlink_to("/dev/full")
    assert main([DIGITS if word == "M" else word for word in words] + ["--allow-noise"] * (words[0] == "bench")) == 2
    assert f"error: {words[-1]}: it can't be written: No space left" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("argv", [["inspect", DIGITS], ["verify", DIGITS, "--json"]])
def test_a_full_standard_output(argv: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fastgraph", *argv], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "standard output: it can't be written: No space left" in done.stderr


@pytest.mark.parametrize(("words", "said"), [
    (["run", "M", "--random", "--output", "x.txt"], "expected a name that ends in .npz or .npy"),
    (["run", "M", "--random", "--output", "x"], "expected a name that ends in .npz or .npy"),
    (["compile", "M", "-o", "x.onnx"], "expected a name that ends in .fgm"),
    (["quantize", "M", "--data", ".", "-o", "x.fgm"], "expected a name that ends in .onnx"),
])  # fmt: skip
def test_names_say_what_is_written(
    capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"{words[-1]}: {said}" in failure(capsys, *(DIGITS if word == "M" else word for word in words))
    assert not list(tmp_path.iterdir())


def test_the_only_output_may_be_an_npy(capsys: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    assert main(["run", DIGITS, "--random", "--output", str(out), "--repeat", "1"]) == 0
    assert capsys.readouterr().err == f"written: {out}: probabilities\n" and np.load(out).shape == (1, 10)
    net, path = Net(), tmp_path / "two.onnx"
    x = net.input("x", (2, 3))
    net.output(net("Relu", x), net("Neg", x))
    path.write_bytes(net.bytes())
    assert "an .npy holds one array" in failure(capsys, "run", str(path), "--random", "--output", str(out))


# -- failing


def test_a_missing_file(capsys: Any) -> None:
    assert "no/such.onnx" in failure(capsys, "run", "no/such.onnx", "--random")


def test_a_file_of_another_kind(capsys: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"<html>not a network</html>")
    assert "HTML" in failure(capsys, "inspect", str(path))


def test_inputs_that_do_not_fit(capsys: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 9), np.float32))
    assert "image" in failure(capsys, "run", DIGITS, "--input", f"image={tmp_path}/x.npy")
    assert "image" in failure(capsys, "run", DIGITS, "--input", f"{tmp_path}/x.npy")
    assert "--input image=FILE" in failure(capsys, "run", DIGITS)
    assert "no input is called 'digit'" in failure(capsys, "run", DIGITS, "--input", f"digit={tmp_path}/x.npy")
    assert "takes 256 of float32[1,1,8,8]" in failure(capsys, "run", DIGITS, "--input", f"image={DIGITS}")


@pytest.mark.parametrize("shape", ["x", "x=a,b", "=1,2", "x=-1,3"])
def test_shapes_that_cannot_be_read(capsys: Any, open_model: str, shape: str) -> None:
    assert "name=1,3,224,224" in failure(capsys, "run", open_model, "--random", "--shape", shape)


def test_open_shapes_need_a_size(capsys: Any, open_model: str, tmp_path: Path) -> None:
    vector = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "vector", [vector],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])])  # fmt: skip
    path = str(tmp_path / "vector.onnx")
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert "--shape x=" in failure(capsys, "run", path, "--random")
    assert "--shape x=" in failure(capsys, "bench", path)
    assert "--shape x=" in failure(capsys, "inspect", path, "--memory")


@pytest.mark.parametrize("argv", [["run"], ["run", "m.onnx", "--threads", "0"], ["bench", "m", "--seconds", "x"], []])
def test_wrong_usage(capsys: Any, argv: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2 and "usage: fastgraph" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["run", "m.onnx", "--ramdom"], "--random"),
        (["bench", "m.onnx", "--agianst=litert"], "--against"),
        (["inspect", "m.onnx", "--xyzzy"], ""),
        (["compare", "a", "b", "--layer-wise", "--atoll", "1"], "--layers, --atol"),
    ],
)
def test_a_flag_that_a_command_lacks(capsys: Any, argv: list[str], meant: str) -> None:
    """It shows how that command is used, and the nearest flag."""
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    err = capsys.readouterr().err
    assert (
        f"usage: fastgraph {argv[0]} " in err and f"unrecognized arguments: {argv[2 + (argv[0] == 'compare')]}" in err
    )
    assert f"did you mean {meant}?" in err if meant else "did you mean" not in err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["runn", "m.onnx"], "did you mean run?"),
        (["benchmark", "m.onnx"], "did you mean bench?"),
        (["xyzzy"], "'digits')\n"),
        ([str(MODEL)], f"a file comes after a command, as in fastgraph inspect {MODEL}\n"),
        (["run", "m.onnx", "--precision", "bf16"], "did you mean bfloat16?"),
        (["quantize", "m.onnx", "--data", "d", "--weights", "3"], "(choose from 8, 4)\n"),
        (["bench", "m.onnx", "--isa", "avx51"], "did you mean avx512?"),
    ],
)
def test_a_choice_that_there_is_not(capsys: Any, argv: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    err = capsys.readouterr().err
    assert err.endswith(f"{said}\n" if said[-1] == "?" else said), err


@pytest.mark.parametrize(
    ("name", "meant"), [("ort", "onnxruntime"), ("TFLite", "litert"), ("openvin", "openvino"), ("xyzzy", "")]
)
def test_an_engine_that_there_is_not(capsys: Any, name: str, meant: str) -> None:
    said = "the engines are onnxruntime, openvino, litert" + (f"; did you mean {meant}?\n" if meant else "\n")
    for argv in (["bench", str(MODEL), "--against", name], ["verify", str(MODEL), "--against", name]):
        assert failure(capsys, *argv).endswith(said)
    assert failure(capsys, "compare", str(MODEL), name).endswith(said)


@pytest.mark.parametrize("command", ["", "run", "inspect", "bench", "digits"])
def test_help_has_examples(capsys: Any, command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0 and (command == "digits" or out.count("  fastgraph ") >= 3)
    assert max(map(len, out.splitlines())) <= 120


# -- as a process


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run", str(MODEL), "--repeat", "x"], "--repeat: expected a whole number of at least 1, found 'x'"),
        (["run", str(MODEL), "--threads", "-1"], "--threads: expected a whole number of at least 1, found '-1'"),
        (["run", str(MODEL), "--mean", "1,a"], "--mean: expected finite numbers, found '1,a'"),
        (["bench", str(MODEL), "--seconds", "nan"], "--seconds: expected finite numbers, found 'nan'"),
        (["bench", str(MODEL), "--seconds", "0"], "--seconds: expected a number above 0, found '0'"),
        (["bench", str(MODEL), "--seconds", "1,2"], "--seconds: expected a number above 0, found '1,2'"),
    ],
)
def test_numbers_that_make_no_sense(capsys: Any, argv: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert said in capsys.readouterr().err


def test_names_do_not_command_the_terminal(capsys: Any, tmp_path: Path) -> None:
    name = "x\x1b[31m\x9b\u202e"
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in (name, "y")]
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "net", value[:1], value[1:])
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for flags in ([], ["--graph"], ["--stages"], ["--memory"], ["--json"]):
        out = printed(capsys, "inspect", str(path), *flags)
        assert all(c.isprintable() or c == "\n" for c in out)
    assert json.loads(out)["inputs"][0]["name"] == name
    error = failure(capsys, "run", str(path))
    assert "x\\u001b[31m" in error and error.strip().isprintable()


def test_errors_stay_short(capsys: Any, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("R" * 1_000_000, ["x"], ["x"])], "net", [value], [value])
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert 3000 < len(failure(capsys, "inspect", str(path))) < 5000


def process(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastgraph", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | env)


def test_the_module_runs_as_a_command() -> None:
    done = process("inspect", DIGITS)
    assert done.returncode == 0 and "arena" in done.stdout and done.stderr == ""
    done = process("inspect", "no/such.onnx")
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr


def test_a_terminal_without_bars(tmp_path: Path) -> None:
    file = tmp_path / "speed.jsonl"
    line = {"model": "net.onnx", "isa": "avx2", "threads": 1, "machine": "a", "commit": None, "ratios": {}}
    file.write_text(json.dumps({**line, "date": "2026-01-01T00:00:00", "p50_ms": 1.0, "noisy": False}) + "\n")
    done = process("history", str(file), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "") and "p50 1.0" in done.stdout


def test_a_terminal_without_letters(tmp_path: Path) -> None:
    """As in a container with no locale, where Python was told to keep to it."""
    files = [tmp_path / "Ähre.npy", tmp_path / "labels.txt"]
    np.save(files[0], held_out()[0][0])
    files[1].write_text("\n".join("六" * n for n in range(1, 11)), encoding="utf-8")
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = process("run", DIGITS, "--input", str(files[0]), "--labels", str(files[1]), **env)
    assert (done.returncode, done.stderr) == (0, "") and "??" in done.stdout


def test_a_folder_that_is_none_is_no_full_disk(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    said = failure(capsys, "digits", "--save", str(tmp_path / "file"))
    assert "File exists; name another place" in said and "free some room" not in said


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "fastgraph", "inspect", DIGITS, "--stages"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout and running.stderr
        running.stdout.close()
        assert running.stderr.read() == b""


def test_importing_the_command_leaves_the_api_alone() -> None:
    code = "import fastgraph, fastgraph.tools.engines; assert callable(fastgraph.load)"
    python("-c", code)


@pytest.mark.parametrize("words", [
    ["compile", "M", "-o", "M"], ["quantize", "M", "--data", "M", "-o", "M"], ["report", "M", "-o", "M"],
    ["run", "M", "--random", "--output", "M"], ["bench", "M", "--json", "M"], ["compare", "M", "M", "--html", "M"],
    ["profile", "M", "--trace", "M"],
])  # fmt: skip
def test_no_command_writes_over_its_model(words: list[str], tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "net.onnx"
    before = Path(DIGITS).read_bytes()
    path.write_bytes(before)
    assert main([str(path) if word == "M" else word for word in words]) == 2
    assert "it is the file that is read" in capsys.readouterr().err and path.read_bytes() == before
