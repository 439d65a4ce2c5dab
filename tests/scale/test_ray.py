"""Networks on Ray: what a batch becomes, without Ray and with a local one."""

import io
import json
import os
import re
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
import fastgraph.ray
from fastgraph.demo import MODEL, held_out
from fastgraph.objects import toolchain
from fastgraph.ray import Predictor, _Cpu, deployment
from tests.nets import Net, by_onnxruntime

ROWS = np.random.default_rng(0).standard_normal((7, 3, 4), np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for saved programs."""
    place = toolchain.directory()
    (tmp_path / "cache").mkdir(mode=0o700)
    os.symlink(place / "objects", tmp_path / "cache" / "objects")
    monkeypatch.setenv("FASTGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def network(folder: Path, batch: Any = "n") -> str:
    """Relu(x W + b) of x[batch, 3, 4], with a second output, the sum of each row."""
    net = Net()
    x = net.input("x", [batch, 3, 4])
    y = net("Relu", net("Add", net("MatMul", x, net.weight(4, 5)), net.weight(5)))
    net.output(y)
    net.output(net("ReduceSum", y, [1, 2], keepdims=0))
    path = folder / f"net-{batch}.onnx"
    path.write_bytes(net.bytes())
    return str(path)


def expected(path: str, rows: np.ndarray) -> list[np.ndarray]:
    """The outputs of onnxruntime, a batch at a time that the file takes."""
    source = Path(path).read_bytes()
    size = fg.load(path).inputs[0].shape[0]
    parts = [by_onnxruntime(source, {"x": row[None].repeat(size if isinstance(size, int) else 1, 0)}) for row in rows]
    return [np.concatenate([part[i][:1] for part in parts]) for i in range(2)]


@pytest.mark.parametrize("batch", ["n", 1, 3, 7, 16])
@pytest.mark.parametrize("count", [7, 3, 1])
def test_rows_of_batches(tmp_path: Path, batch: Any, count: int) -> None:
    """Open, fixed, and fixed ones that are filled up."""
    path = network(tmp_path, batch)
    predictor = Predictor(path)
    names = [spec.name for spec in predictor.model.outputs]
    for rows in (ROWS[:count], ROWS[-count:]):
        found = predictor({"x": rows, "id": np.arange(count)})
        assert list(found) == ["id", *names] and found["id"].tolist() == list(range(count))
        for name, right in zip(names, expected(path, rows), strict=True):
            np.testing.assert_allclose(found[name], right, atol=1e-5)


def test_sizes_have_plans_that_are_kept(tmp_path: Path) -> None:
    predictor = Predictor(network(tmp_path), batch_sizes=[4])
    assert predictor.model.planned
    for count in (4, 3, 4, 3):
        predictor({"x": ROWS[:count]})
    assert {key.shapes[0][0] for key in predictor.model._plans.keys()} == {4, 3}


def test_no_rows(tmp_path: Path) -> None:
    for batch in ("n", 3):
        found = Predictor(network(tmp_path, batch))({"x": ROWS[:0]})
        assert [column.shape for column in found.values()] == [(0, 3, 5), (0,)]


def test_inputs_without_a_batch() -> None:
    """digits takes [1, 1, 8, 8]: rows of [1, 8, 8] and of [1, 1, 8, 8] alike."""
    images = held_out()[0][:3]
    right = np.concatenate([fg.load(MODEL)(image) for image in images])
    predictor = Predictor(MODEL)
    assert predictor({"image": images[:, 0]})["probabilities"].tobytes() == right.tobytes()
    assert predictor({"anything": images})["probabilities"].tobytes() == right[:, None].tobytes()


def test_rows_of_different_shapes(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Relu", net.input("x", ["n", "m"])))
    path = tmp_path / "relu.onnx"
    path.write_bytes(net.bytes())
    rows = [np.arange(-2.0, 2.0), np.arange(-3.0, 3.0), np.arange(1.0)]
    column = np.empty(3, object)
    column[:] = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # float64
        (found,) = Predictor(path)({"x": column}).values()
    assert [each.tolist() for each in found] == [np.maximum(row, 0).tolist() for row in rows]


def test_columns_results_and_constants(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Mul", net.input("x", ["n", 2]), net.input("factor", [])))
    path, rows = tmp_path / "mul.onnx", np.ones((3, 2), np.float32)
    path.write_bytes(net.bytes())
    name = fg.load(path).outputs[0].name
    predictor = Predictor(path, columns={"x": "a"}, results={name: "y"}, constants={"factor": np.float32(3)})
    assert predictor({"a": rows, "b": rows})["y"].tolist() == (3 * rows).tolist()
    for batch, text in (
        ({"b": rows}, "no column 'a' for input 'x', there are 'b'"),
        ({"a": rows, "y": rows}, "'y': an output and a column have this name"),
        ({"a": rows[:, :1]}, "input 'x'"),
    ):
        with pytest.raises(fg.InputError, match=text):
            predictor(batch)
    for wrong, text in (
        ({"columns": {"z": "a"}}, "no input is called 'z', there are 'x', 'factor'"),
        ({"results": {"z": "a"}}, "no output is called 'z'"),
    ):
        with pytest.raises(fg.InputError, match=text):
            Predictor(path, **wrong)


def test_conversions_are_said_once(tmp_path: Path) -> None:
    predictor = Predictor(network(tmp_path))
    with pytest.warns(UserWarning, match="column of input 'x' is float64, the input float32: it is rounded"):
        found = predictor({"x": ROWS.astype(float) + 1e-12})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(map(np.array_equal, found.values(), predictor({"x": ROWS}).values()))
        predictor({"x": ROWS.astype(float)})
    with pytest.warns(UserWarning, match="is uint8, the input float32: it is fed as numbers of that type, and not"):
        predictor({"x": np.ones((2, 3, 4), np.uint8)})


def test_an_output_without_rows(tmp_path: Path) -> None:
    net = Net()
    net.output(net("ReduceSum", net.input("x", ["n", 3]), keepdims=0))
    path = tmp_path / "sum.onnx"
    path.write_bytes(net.bytes())
    with pytest.raises(
        fg.InputError, match=r"of a batch of 2 is \(\), not a row for each: choose others with outputs="
    ):
        Predictor(path)({"x": np.ones((2, 3), np.float32)})


def test_a_machine_has_one_program(tmp_path: Path, cache: Path) -> None:
    path = network(tmp_path)
    for _ in range(2):
        Predictor(path, batch_sizes=[4])({"x": ROWS[:4]})
    assert len(list((cache / "plans").glob("ray-*.fgm"))) == 1
    maps = Path("/proc/self/maps")
    if maps.is_file():
        predictor = Predictor(path, batch_sizes=[4])
        assert "ray-" in maps.read_text() and predictor.model.planned
    Predictor(path, batch_sizes=[5])
    Predictor(path, batch_sizes=[4], isa="generic")
    assert len(list((cache / "plans").glob("ray-*.fgm"))) == 3


def test_a_saved_program(tmp_path: Path) -> None:
    path, place = network(tmp_path), str(tmp_path / "net.fgm")
    fg.load(path, threads=1).save(place, shapes=[{"x": (4, 3, 4)}])
    predictor = Predictor(place, trusted=True)
    for count in (4, 2):
        for column, right in zip(predictor({"x": ROWS[:count]}).values(), expected(path, ROWS[:count]), strict=True):
            np.testing.assert_allclose(column, right, atol=1e-5)


def test_what_cannot_be_saved_runs_all_the_same(tmp_path: Path, cache: Path) -> None:
    predictor = Predictor(network(tmp_path), isa="numpy")
    assert len(predictor({"x": ROWS})) == 2 and not list((cache / "plans").glob("*.fgm"))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads can't be pinned on this system")
def test_each_actor_has_a_cpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastgraph.ray, "HOLDS", f"test-{os.getpid()}")
    before = os.sched_getaffinity(0)
    held = [_Cpu() for _ in range(len(before) + 1)]
    numbers = [each.number for each in held]
    assert len(set(numbers)) == len(numbers) and numbers[-1] is None
    for each in held:
        with each:
            assert os.sched_getaffinity(0) == (before if each.number is None else {each.number})
    assert os.sched_getaffinity(0) == before
    assert _Cpu().number is None
    del held, each
    assert _Cpu().number is not None


def test_rows_of_requests(tmp_path: Path) -> None:
    predictor = Predictor(network(tmp_path))
    rows = [predictor.row({"x": row.tolist()}) for row in ROWS[:2]] + [predictor.row({"x": ROWS[2:4]})]
    found = predictor.rows(rows)
    a, b = expected(predictor._path, ROWS)
    first, second = (spec.name for spec in predictor.model.outputs)
    for i in range(2):
        np.testing.assert_allclose(found[i][first], a[i], atol=1e-5)
        np.testing.assert_allclose(found[i][second], b[i], atol=1e-5)
    np.testing.assert_allclose(found[2][first], a[2:4], atol=1e-5)
    with pytest.raises(fg.InputError, match="of which a row is one"):
        predictor.row({"x": ROWS[0, :2]})
    with pytest.raises(fg.InputError, match="expected the inputs 'x', found 'y'"):
        predictor.row({"y": ROWS[0]})


# With a local Ray.


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'fastgraph-runtime[ray]'")
    pytest.importorskip("ray.data")
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path(fg.__file__).parents[1]))}
    env["FASTGRAPH_CACHE_DIR"] = str(toolchain.directory())
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": env},
        object_store_memory=100 << 20,
    )  # fmt: skip
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_ray_data(ray: Any, tmp_path: Path) -> None:
    path, rows = network(tmp_path), np.random.default_rng(1).standard_normal((37, 3, 4), np.float32)
    ds = ray.data.from_items([{"x": row, "id": i} for i, row in enumerate(rows)])
    how = {"fn_constructor_kwargs": {"path": path}, "batch_size": 8, "concurrency": 1, "num_cpus": 1}
    found = sorted(ds.map_batches(Predictor, **how).take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(37))
    names = [spec.name for spec in fg.load(path).outputs]
    model = fg.load(path, threads=1)
    for row, x in zip(found, rows, strict=True):
        for name, right in model.run({"x": x[None]}).items():
            np.testing.assert_allclose(row[name], right[0], atol=1e-5)
    assert len(names) == 2


@pytest.mark.slow
def test_ray_serve(ray: Any, tmp_path: Path) -> None:
    serve = pytest.importorskip("ray.serve")
    path = network(tmp_path)
    try:
        handle = serve.run(deployment(path, max_batch_size=4, batch_wait_timeout_s=0.05), route_prefix="/net")
        waiting = [handle.remote({"x": row}) for row in ROWS]
        found = [each.result(timeout_s=60) for each in waiting]
        names = [spec.name for spec in fg.load(path).outputs]
        for name, right in zip(names, expected(path, ROWS), strict=True):
            np.testing.assert_allclose([each[name] for each in found], right, atol=1e-5)
        with pytest.raises(Exception, match="of which a row is one"):
            handle.remote({"x": ROWS[0, :2]}).result(timeout_s=60)

        status, body = post(json.dumps({"x": ROWS[0].tolist()}).encode())
        assert status == 200, body
        np.testing.assert_allclose(json.loads(body)[names[0]], found[0][names[0]], atol=1e-5)
        packed = io.BytesIO()
        np.savez(packed, x=ROWS[1])
        status, body = post(packed.getvalue())
        assert status == 200 and np.load(io.BytesIO(body))[names[0]].tobytes() == found[1][names[0]].tobytes()
        answers = together([json.dumps({"x": x}).encode() for x in (ROWS[0].tolist(), [1.0], ROWS[2].tolist())])
        assert [status for status, _ in answers] == [200, 400, 200]
        assert "of which a row is one" in json.loads(answers[1][1])["error"]
    finally:
        serve.shutdown()


@pytest.mark.slow
def test_the_page(ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/scale-out.md, as it is written; scores as other tests have them."""
    pytest.importorskip("ray.serve")
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "scale-out.md"
    data, service = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(compile(data, page.name, "exec"), names)
    rows = names["scores"].take_all()
    assert np.mean([np.argmax(row["probabilities"]) == row["label"] for row in rows]) > 0.97 and len(rows) == 454
    try:
        exec(compile(service, page.name, "exec"), names)
        image = held_out()[0][0, 0]
        status, body = post(json.dumps({"image": image.tolist()}).encode(), "digits")
        right = by_onnxruntime(MODEL.read_bytes(), {"image": image[None]})[0]
        assert status == 200
        np.testing.assert_allclose(json.loads(body)["probabilities"], right[0], atol=1e-5)
    finally:
        names["serve"].shutdown()


def post(body: bytes, route: str = "net") -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:8000/{route}", body, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def together(bodies: list[bytes]) -> list[tuple[int, bytes]]:
    """The answers to requests that are sent at the same time."""
    found: list[tuple[int, bytes]] = [(0, b"")] * len(bodies)
    threads = [
        threading.Thread(target=lambda i=i, body=body: found.__setitem__(i, post(body)))
        for i, body in enumerate(bodies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
