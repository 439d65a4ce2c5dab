"""Cases of rarer operators: recurrent layers, control flow, lists, compressed weights, indices, sorting, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.mil.case_tables import Array, add, by_torch, normal, single, uniform, whole

MODES = {"update": None, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
         "min": np.minimum}  # fmt: skip


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _torch_layer(kind: Any, w: Array, r: Array, order: tuple[int, ...], b: Array | None, rb: Array | None = None,
                 back: tuple[Array, Array, Array] | None = None) -> torch.nn.Module:  # fmt: skip
    """The layer with MIL's weights, whose gates `order` brings into PyTorch's."""
    layer = kind(w.shape[1], r.shape[1], bidirectional=back is not None)

    def turned(m: Array | None) -> torch.Tensor:
        parts = np.split(np.zeros(len(w), "f4") if m is None else m, len(order))
        return torch.from_numpy(np.concatenate([parts[i] for i in order]))

    with torch.no_grad():
        for suffix, (w_, r_, b_, rb_) in [("", (w, r, b, rb)), *([("_reverse", (*back, None))] if back else [])]:
            for name, m in (("weight_ih", w_), ("weight_hh", r_), ("bias_ih", b_), ("bias_hh", rb_)):
                getattr(layer, f"{name}_l0{suffix}").copy_(turned(m))
    return layer


def recurrent() -> None:
    t, n, i, h = 5, 3, 4, 2
    x, first, cell = normal(t, n, i), normal(n, h), normal(n, h)
    w, r, b = normal(4 * h, i), normal(4 * h, h), normal(4 * h)
    back = normal(4 * h, i), normal(4 * h, h), normal(4 * h)
    both, both_cells = normal(n, 2 * h), normal(n, 2 * h)
    layer = _torch_layer(torch.nn.LSTM, w, r, (0, 1, 3, 2), b)

    def lstm(x: Array, flip: bool = False, every: bool = True) -> list[Array]:
        given = torch.from_numpy(x).flip(0) if flip else torch.from_numpy(x)
        y, (hn, cn) = layer(given, (torch.from_numpy(first)[None], torch.from_numpy(cell)[None]))
        return [v.detach().numpy() for v in (y if every else y[-1:], hn[0], cn[0])]

    for direction in ("forward", "reverse"):
        for every in (True, False):
            add(f"lstm/{direction}/{every}", x, lambda mb, x, d=direction, e=every: mb.lstm(
                x=x, initial_h=first, initial_c=cell, weight_ih=w, weight_hh=r, bias=b, direction=d, output_sequence=e),
                lambda x, d=direction, e=every: lstm(x, d == "reverse", e))  # fmt: skip
    double = _torch_layer(torch.nn.LSTM, w, r, (0, 1, 3, 2), b, back=back)

    def bidirectional(x: Array) -> list[Array]:
        states = [torch.from_numpy(np.stack(np.split(s, 2, 1))) for s in (both, both_cells)]
        y, finals = double(torch.from_numpy(x), tuple(states))
        return [y.detach().numpy(), *(np.concatenate(list(v.detach().numpy()), 1) for v in finals)]

    add(
        "lstm/bidirectional",
        x,
        lambda mb, x: mb.lstm(
            x=x,
            initial_h=both,
            initial_c=both_cells,
            weight_ih=w,
            weight_hh=r,
            bias=b,
            weight_ih_back=back[0],
            weight_hh_back=back[1],
            bias_back=back[2],
            direction="bidirectional",
            output_sequence=True,
        ),
        bidirectional,
    )
    peephole = normal(3 * h)

    def clipped(x: Array) -> list[Array]:
        hidden, c, found = first, cell, []
        p = np.split(peephole, 3)
        for step in x:
            gi, gf, go, gz = np.split(step @ w.T + hidden @ r.T + b, 4, 1)
            c = np.clip(sigmoid(gf + p[1] * c) * c + sigmoid(gi + p[0] * c) * np.maximum(gz, 0), -0.3, 0.3)
            hidden = np.clip(0.2 * c + 0.5, 0, 1) * sigmoid(go + p[2] * c)
            found.append(hidden)
        return [np.stack(found), hidden, c]

    add("lstm/peephole", x, lambda mb, x: mb.lstm(
        x=x, initial_h=first, initial_c=cell, weight_ih=w, weight_hh=r, bias=b, peephole=peephole, clip=np.float32(0.3),
        output_sequence=True, cell_activation="relu", activation="hard_sigmoid"), clipped)  # fmt: skip
    gw, gr, gb, gi = normal(3 * h, i), normal(3 * h, h), normal(3 * h), normal(3 * h)

    def gru(x: Array) -> list[Array]:
        hidden, found = first, []
        for step in x:
            (xr, xo, xz), (rr, ro, rz), (br, bo, bz) = np.split(step @ gw.T, 3, 1), np.split(gr, 3), np.split(gb, 3)
            reset, update = sigmoid(xr + hidden @ rr.T + br), sigmoid(xz + hidden @ rz.T + bz)
            hidden = (1 - update) * np.tanh(xo + (reset * hidden) @ ro.T + bo) + update * hidden
            found.append(hidden)
        return [np.stack(found), hidden]

    single("gru", x, gru, initial_h=first, weight_ih=gw, weight_hh=gr, bias=gb, output_sequence=True)
    after = _torch_layer(torch.nn.GRU, gw, gr, (0, 2, 1), gi, gb)

    def reset_after(x: Array) -> list[Array]:
        y, hn = after(torch.from_numpy(x), torch.from_numpy(first)[None])
        return [y.detach().numpy(), hn[0].detach().numpy()]

    add("gru/reset_after", x, lambda mb, x: mb.gru(
        x=x, initial_h=first, weight_ih=gw, weight_hh=gr, bias=gb, input_bias=gi, reset_after=True,
        output_sequence=True), reset_after, "iOS18")  # fmt: skip
    rw, rr, rb = normal(h, i), normal(h, h), normal(h)
    for name, f in {"tanh": np.tanh, "relu": lambda v: np.maximum(v, 0), "sigmoid": sigmoid,
                    "linear": lambda v: v}.items():  # fmt: skip

        def rnn(x: Array, f: Any = f) -> list[Array]:
            hidden = first
            for step in x:
                hidden = f(step @ rw.T + hidden @ rr.T + rb)
            return [hidden[None], hidden]

        single(f"rnn/{name}", x, rnn, initial_h=first, weight_ih=rw, weight_hh=rr, bias=rb, activation=name)


def control() -> None:
    for flag in (3.0, -3.0):
        add(f"cond/{flag}", np.float32([flag, 2]), lambda mb, x: mb.cond(
            pred=mb.greater(x=mb.reduce_sum(x=x), y=0.0),
            _true_fn=lambda: mb.add(x=x, y=1.0), _false_fn=lambda: mb.mul(x=x, y=x)),
            lambda x: x + 1 if x.sum() > 0 else x * x)  # fmt: skip

    def doubled(x: Array) -> list[Array]:
        n = 0
        while x.sum() < 100:
            x, n = x * 2, n + 1
        return [x, np.int32(n)]

    add("while_loop", np.float32([1, 2]), lambda mb, x: mb.while_loop(
        _cond=lambda v, n: mb.less(x=mb.reduce_sum(x=v), y=100.0),
        _body=lambda v, n: (mb.mul(x=v, y=2.0), mb.add(x=n, y=1)), loop_vars=(x, np.int32(0))), doubled)  # fmt: skip
    add("while_loop/never", np.float32([100, 2]), lambda mb, x: mb.while_loop(
        _cond=lambda v: mb.less(x=mb.reduce_sum(x=v), y=100.0), _body=lambda v: mb.mul(x=v, y=x), loop_vars=(x,)),
        lambda x: x)  # fmt: skip

    def branch(mb: Any, v: Any) -> Any:
        return mb.cond(pred=mb.greater(x=mb.reduce_max(x=v), y=5.0), _true_fn=lambda: mb.add(x=v, y=7.0),
                       _false_fn=lambda: mb.mul(x=v, y=3.0))  # fmt: skip

    def nested(x: Array) -> Array:
        while x.sum() < 60:
            x = x + 7 if x.max() > 5 else x * 3
        return x

    add(
        "while_loop/cond",
        np.float32([1, 2]),
        lambda mb, x: mb.while_loop(
            _cond=lambda v: mb.less(x=mb.reduce_sum(x=v), y=60.0), _body=lambda v: branch(mb, v), loop_vars=(x,)
        ),
        nested,
    )

    def listed(mb: Any, x: Any, y: Any) -> Any:
        ls = mb.make_list(init_length=3, dynamic_length=False, elem_shape=(2,))
        ls = mb.list_write(ls=ls, index=2, value=x)
        ls = mb.list_scatter(ls=ls, indices=np.int32([1, 0]), value=y)
        return mb.list_gather(ls=ls, indices=np.int32([0, 1, 2])), mb.list_read(ls=ls, index=1)

    add("list/fixed", [normal(2), normal(2, 2)], listed, lambda x, y: [np.stack([y[1], y[0], x]), y[0]])

    def collected(mb: Any, x: Any) -> Any:
        ls = mb.make_list(init_length=0, elem_shape=(2,))
        _, ls = mb.while_loop(
            _cond=lambda n, ls: mb.less(x=n, y=4),
            _body=lambda n, ls: (
                mb.add(x=n, y=1),
                mb.list_write(ls=ls, index=n, value=mb.mul(x=x, y=mb.cast(x=n, dtype="fp32"))),
            ),
            loop_vars=(np.int32(0), ls),
        )
        length = mb.list_length(ls=ls)
        return mb.list_gather(ls=ls, indices=mb.range_1d(start=0, end=length, step=1)), length

    add("list/grown", normal(2), collected, lambda x: [np.stack([x * n for n in range(4)]), np.int32(4)])


def compressed() -> None:
    x, stored = normal(2, 3, 8), whole(3, 8, low=-128, high=127, dtype="i1")
    bytes_, scales = stored.view("u1"), uniform(8, low=0.01, high=0.1)
    zeros = whole(8, low=-5, high=5, dtype="i1")
    for name, (data, scale, zero, axis, real) in {
        "tensor": (bytes_, np.float32(0.03), np.uint8(120), 0, (bytes_ - np.float32(120)) * np.float32(0.03)),
        "axis": (stored, scales, zeros, -1, (stored - zeros.astype("f4")) * scales),
        "float": (stored, np.float32(0.5), np.float32(0.25), 0, (stored - np.float32(0.25)) * np.float32(0.5)),
    }.items():
        add(f"constexpr_affine_dequantize/{name}", x, lambda mb, x, a=(data, scale, zero, axis): mb.add(
            x=x, y=mb.constexpr_affine_dequantize(quantized_data=a[0], scale=a[1], zero_point=a[2], axis=a[3])),
            lambda x, real=real: x + real, "iOS16")  # fmt: skip
    for bits in (1, 2, 4, 6, 8):
        lut, codes = normal(1 << bits), whole(24, low=0, high=1 << bits, dtype="u1")
        rows = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little")
        packed = np.packbits(rows.reshape(-1), bitorder="little")
        add(f"constexpr_lut_to_dense/{bits}", x, lambda mb, x, p=packed, lut=lut: mb.add(
            x=x, y=mb.constexpr_lut_to_dense(indices=p, lut=lut, shape=np.uint32([3, 8]))),
            lambda x, lut=lut, codes=codes: x + lut[codes].reshape(3, 8), "iOS16")  # fmt: skip
    mask = whole(3, 8, low=0, high=2, dtype="u1")
    kept = normal(int(mask.sum()))
    dense = np.zeros((3, 8), "f4")
    dense[mask == 1] = kept
    add("constexpr_sparse_to_dense", x, lambda mb, x: mb.add(x=x, y=mb.constexpr_sparse_to_dense(
        nonzero_data=kept, mask=np.packbits(mask, bitorder="little"), shape=np.uint32([3, 8]))),
        lambda x: x + dense, "iOS16")  # fmt: skip
    add("constexpr_cast", x, lambda mb, x: mb.add(
        x=x, y=mb.constexpr_cast(source_val=dense.astype("f2"), output_dtype="fp32")),
        lambda x: x + dense.astype("f2").astype("f4"), "iOS16")  # fmt: skip
    block_scale, block_zero = uniform(3, 4, low=0.01, high=0.1), whole(3, 4, low=-5, high=5, dtype="i1")
    wide = np.repeat(block_scale, 2, 1) * (stored - np.repeat(block_zero, 2, 1).astype("f4"))
    add("constexpr_blockwise_shift_scale", x, lambda mb, x: mb.add(x=x, y=mb.constexpr_blockwise_shift_scale(
        data=stored, scale=block_scale, offset=block_zero)), lambda x: x + wide, "iOS18")  # fmt: skip
    channel = uniform(3, 1, low=0.01, high=0.1)
    add("linear/int8", normal(2, 8), lambda mb, x: mb.linear(x=x, weight=mb.constexpr_blockwise_shift_scale(
        data=stored, scale=channel)), lambda x: x @ (stored * channel).T, "iOS18")  # fmt: skip


def indices() -> None:
    x = normal(2, 4, 3)
    rows = whole(2, 5, low=0, high=4)
    add("gather/batch", [x, rows], lambda mb, x, y: mb.gather(x=x, indices=y, axis=1, batch_dims=1),
        lambda x, y: np.stack([a[i] for a, i in zip(x, y, strict=True)]), "iOS16")  # fmt: skip
    add("gather/negative", [x, np.int32([[-1, 0], [2, -4]])], lambda mb, x, y: mb.gather(x=x, indices=y, axis=1),
        lambda x, y: x[:, y])  # fmt: skip
    add("gather/validated", [x, np.int32([3, 0])], lambda mb, x, y: mb.gather(
        x=x, indices=y, axis=1, validate_indices=True), lambda x, y: x[:, y], "iOS17")  # fmt: skip
    table = whole(9, 4, low=-128, high=127, dtype="i1")
    scale = uniform(9, low=0.01, high=0.1)
    add("gather/int8", np.int32([3, 3, 8]), lambda mb, x: mb.gather(x=mb.constexpr_affine_dequantize(
        quantized_data=table, scale=scale, zero_point=np.int8(0), axis=0), indices=x, axis=0),
        lambda x: (table * scale[:, None])[x], "iOS16")  # fmt: skip
    pairs = np.stack([whole(2, 5, low=0, high=4), whole(2, 5, low=0, high=3)], -1)
    add("gather_nd/batch", [x, pairs], lambda mb, x, y: mb.gather_nd(x=x, indices=y, batch_dims=1),
        lambda x, y: np.stack([a[i[:, 0], i[:, 1]] for a, i in zip(x, y, strict=True)]), "iOS16")  # fmt: skip
    along = whole(2, 4, 5, low=0, high=3)
    add("gather_along_axis", [x, along], lambda mb, x, y: mb.gather_along_axis(x=x, indices=y, axis=-1),
        lambda x, y: np.take_along_axis(x, y, -1))  # fmt: skip
    for mode, function in MODES.items():
        at, updates = np.int32([2, 0, 2] if mode != "update" else [2, 0, 1]), uniform(2, 3, 3)

        def scattered(x: Array, y: Array, at: Array = at, f: Any = function) -> Array:
            found = x.copy()
            for place, part in zip(at, np.moveaxis(y, 1, 0), strict=True):
                found[:, place] = part if f is None else f(found[:, place], part)
            return found

        def scattered_nd(x: Array, y: Array, f: Any = function) -> Array:
            found = x.copy()
            for place, part in zip(((0, 1), (1, 3)), y, strict=True):
                found[place] = part if f is None else f(found[place], part)
            return found

        add(f"scatter/{mode}", [x, updates], lambda mb, x, y, m=mode, a=at: mb.scatter(
            data=x, indices=a, updates=y, axis=1, mode=m), scattered)  # fmt: skip
        add(f"scatter_nd/{mode}", [x, uniform(2, 3)], lambda mb, x, y, m=mode: mb.scatter_nd(
            data=x, indices=np.int32([[0, 1], [1, 3]]), updates=y, mode=m), scattered_nd)  # fmt: skip
        add(f"scatter_along_axis/{mode}", [x, uniform(2, 1, 3)], lambda mb, x, y, m=mode: mb.scatter_along_axis(
            data=x, indices=np.int32([[[3, 0, 1]], [[2, 2, 2]]]), updates=y, axis=1, mode=m),
            lambda x, y, f=function: _along(x, np.int32([[[3, 0, 1]], [[2, 2, 2]]]), y, f))  # fmt: skip


def _along(x: Array, at: Array, y: Array, f: Any) -> Array:
    found = x.copy()
    for i, j, k in np.ndindex(*at.shape):
        place = (i, at[i, j, k], k)
        found[place] = y[i, j, k] if f is None else f(found[place], y[i, j, k])
    return found


def sorting() -> None:
    x = normal(3, 7)
    for ascending in (False, True):
        order = (lambda x: np.argsort(x)) if ascending else (lambda x: np.argsort(-x))
        add(f"topk/{ascending}", x, lambda mb, x, a=ascending: mb.topk(x=x, k=3, axis=-1, ascending=a),
            lambda x, o=order: [np.take_along_axis(x, o(x)[:, :3], 1), o(x)[:, :3].astype("i4")])  # fmt: skip
        single(f"argsort/{ascending}", x, lambda x, o=order: o(x).astype("i4"), ascending=ascending)
    single("topk/values", x, lambda x: -np.sort(-x, 0)[:2], "iOS16", k=2, axis=0, return_indices=False)
    single("non_zero/floats", np.float32([[0, 1, 0], [2, 0, 3]]), lambda x: np.argwhere(x).astype("i4"))
    add("one_hot", np.int32([1, 0, 3]), lambda mb, x: mb.one_hot(
        indices=x, one_hot_vector_size=4, axis=0, on_value=2.5, off_value=-1.0),
        lambda x: np.where(np.eye(4)[x].T == 1, np.float32(2.5), np.float32(-1)))  # fmt: skip
    boxes, scores = np.concatenate([uniform(2, 9, 2, high=3), uniform(2, 9, 2, low=1.0)], 2), normal(2, 9, 3)
    for per_class in (False, True):
        add(f"non_maximum_suppression/{per_class}", [boxes, scores], lambda mb, x, y, p=per_class:
            mb.non_maximum_suppression(boxes=x, scores=y, iou_threshold=0.3, score_threshold=0.2, max_boxes=4,
                                       per_class_suppression=p),
            lambda x, y, p=per_class: suppressed(x, y, 0.3, 0.2, 4, p))  # fmt: skip
    add("non_maximum_suppression/none", [boxes, scores - 9], lambda mb, x, y: mb.non_maximum_suppression(
        boxes=x, scores=y, iou_threshold=0.3, score_threshold=0.2, max_boxes=4),
        lambda x, y: suppressed(x, y, 0.3, 0.2, 4, False))  # fmt: skip
    turned = [np.ascontiguousarray(v.transpose(0, 2, 1)) for v in (boxes, scores)]
    add("non_maximum_suppression/ios17", turned, lambda mb, x, y: mb.non_maximum_suppression(
        boxes=x, scores=y, iou_threshold=0.3, max_boxes=12),
        lambda x, y: [v.transpose(0, 2, 1) if v.ndim == 3 else v for v in suppressed(
            x.transpose(0, 2, 1), y.transpose(0, 2, 1), 0.3, -1e9, 12, False)[:3]], "iOS17")  # fmt: skip


def suppressed(boxes: Array, scores: Array, limit: float, least: float, most: int, per_class: bool) -> list[Array]:
    """As the reference in coremltools' tests: of no box above the threshold, the best is taken."""
    n = len(boxes)
    found = [np.zeros((n, most, 4), "f4"), np.zeros((n, most, scores.shape[2]), "f4"), np.full((n, most), -1, "i4"),
             np.zeros(n, "i4")]  # fmt: skip
    for b in range(n):
        kept: list[int] = []
        best, label = scores[b].max(1), scores[b].argmax(1)
        for i in np.argsort(-best):
            rivals = [k for k in kept if not per_class or label[k] == label[i]]
            if best[i] > least and all(_iou(boxes[b, i], boxes[b, k]) <= limit for k in rivals):
                kept.append(int(i))
        kept = kept[:most] or [int(best.argmax())]
        found[0][b, : len(kept)], found[1][b, : len(kept)] = boxes[b, kept], scores[b, kept]
        found[2][b, : len(kept)], found[3][b] = kept, len(kept)
    return found


def _iou(a: Array, b: Array) -> float:
    low, high = np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2), np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2)
    inner = np.maximum(high - low, 0).prod()
    return float(inner / (a[2:].prod() + b[2:].prod() - inner))


def attention() -> None:
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 6)
    add("scaled_dot_product_attention", [q, k, v], lambda mb, x, y, z: mb.scaled_dot_product_attention(
        query=x, key=y, value=z), by_torch(F.scaled_dot_product_attention), "iOS18")  # fmt: skip
    flags = np.array([[True, False, True, True, False]] * 4)
    add(
        "scaled_dot_product_attention/flags",
        [q, k, v],
        lambda mb, x, y, z: mb.scaled_dot_product_attention(query=x, key=y, value=z, attn_mask=flags),
        by_torch(lambda *v: F.scaled_dot_product_attention(*v, torch.from_numpy(flags))),
        "iOS18",
    )
    add(
        "einsum/4",
        [normal(2, 3, 1, 4), normal(1, 4, 5, 6)],
        lambda mb, x, y: mb.einsum(values=(x, y), equation="nchw,nwhu->nchu"),
        lambda x, y: np.einsum("nchw,nwhu->nchu", np.broadcast_to(x, (2, 3, 5, 4)), np.broadcast_to(y, (2, 4, 5, 6))),
    )
    add("einsum/3", [normal(3, 5, 4), normal(4, 5, 6)], lambda mb, x, y: mb.einsum(
        values=(x, y), equation="abc,cbd->abd"), lambda x, y: np.einsum("abc,cbd->abd", x, y))  # fmt: skip
    add("sliding_windows", normal(2, 9, 3), lambda mb, x: mb.sliding_windows(x=x, axis=1, size=4, stride=2),
        lambda x: np.stack([x[:, i : i + 4] for i in (0, 2, 4)], 1))  # fmt: skip
    scale, zero = uniform(3, low=0.01, high=0.1), whole(3, dtype="i1")
    for name, how, s, z in (
        ("tensor", {"scale": scale[0], "zero_point": zero[0]}, scale[0], np.float32(zero[0])),
        ("axis", {"scale": scale, "zero_point": zero, "axis": 1}, scale[:, None], zero[:, None].astype("f4")),
    ):
        add(f"quantize/{name}", normal(2, 3, 4), lambda mb, x, how=how: mb.dequantize(
            input=mb.quantize(input=x, output_dtype="int8", **how), **how),
            lambda x, s=s, z=z: (np.clip(np.rint(x / s) + z, -128, 127) - z) * s, "iOS17")  # fmt: skip
