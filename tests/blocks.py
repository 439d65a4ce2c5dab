"""Well-known blocks of networks: `BLOCKS[name](net)` writes one into a `Net`."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from tests.nets import F32, I64, Net

BLOCKS: dict[str, Callable[[Net], None]] = {}
RARE: dict[str, Callable[[Net], None]] = {}
"""What is rewritten away more than it is computed: for golden texts."""
NEWEST: dict[str, Callable[[Net], None]] = {}
"""Of operators that onnxruntime has not yet: for golden texts."""


def block(build: Callable[[Net], None]) -> Callable[[Net], None]:
    BLOCKS[build.__name__] = build
    return build


def rare(build: Callable[[Net], None]) -> Callable[[Net], None]:
    RARE[build.__name__] = build
    return build


def conv(net: Net, x: str, c: int, o: int, k: int = 3, bias: bool = True, **attrs: object) -> str:
    group = attrs.get("group", 1)
    parameters = [net.weight(o, c // group, k, k), *([net.weight(o)] if bias else [])]
    return net("Conv", x, *parameters, **{"pads": [k // 2] * 4, **attrs})


def norm(net: Net, x: str, c: int) -> str:
    parameters = [net.weight(c) for _ in range(3)] + [net.const(np.full(c, 0.5, F32))]
    return net("BatchNormalization", x, *parameters)


def image(net: Net, c: int = 16, size: int = 8) -> str:
    return net.input("x", (1, c, size, size))


def newest(build: Callable[[Net], None]) -> Callable[[Net], None]:
    NEWEST[build.__name__] = build
    return build


@block
def conv_bn_relu(net: Net) -> None:
    net.output(net("Relu", norm(net, conv(net, image(net), 16, 32, bias=False), 32)))


@block
def scaled_relu(net: Net) -> None:
    """As PaddlePaddle's mobile networks end layers: two learned numbers behind a ReLU."""
    y = net("Mul", net("Relu", conv(net, image(net), 16, 32)), 1.25)
    net.output(net("Add", y, 0.5))


@block
def residual(net: Net) -> None:
    x = image(net)
    a = net("Relu", norm(net, conv(net, x, 16, 16), 16))
    net.output(net("Relu", net("Add", norm(net, conv(net, a, 16, 16), 16), x)))


@block
def pad_conv(net: Net) -> None:
    pads = net.const(np.array([0, 0, 1, 1, 0, 0, 2, 2], I64))
    net.output(conv(net, net("Pad", image(net), pads), 16, 16, pads=[0, 0, 0, 0], strides=[2, 2]))


@block
def inverted_residual(net: Net) -> None:
    x = image(net)
    low, high = net.const(np.array(0, F32)), net.const(np.array(6, F32))
    a = net("Clip", norm(net, conv(net, x, 16, 32, 1, False), 32), low, high)
    b = net("Clip", norm(net, conv(net, a, 32, 32, 3, False, group=32), 32), low, high)
    net.output(net("Add", x, norm(net, conv(net, b, 32, 16, 1, False), 16)))


@block
def branches_of_training(net: Net) -> None:
    """RepVGG's three."""
    x = net("Relu", conv(net, image(net), 16, 16))
    wide, narrow = (norm(net, conv(net, x, 16, 16, kernel, False), 16) for kernel in (3, 1))
    net.output(net("Relu", net("Add", net("Add", wide, narrow), norm(net, x, 16))))


@block
def squeeze_excite(net: Net) -> None:
    x = net("Sigmoid", conv(net, image(net), 16, 16))
    gate = net("Relu", conv(net, net("GlobalAveragePool", x), 16, 12, 1))
    net.output(conv(net, net("Mul", x, net("HardSigmoid", conv(net, gate, 12, 16, 1))), 16, 16, 1))


@block
def channel_shuffle(net: Net) -> None:
    x = conv(net, image(net, 16, 6), 16, 32, 1)
    left, right = net("Split", x, [16, 16], outputs=2, axis=1)
    joined = net("Concat", left, net("Relu", conv(net, right, 16, 16)), axis=1)
    split = net("Reshape", joined, [1, 2, 16, 6, 6])
    turned = net("Transpose", split, perm=[0, 2, 1, 3, 4])
    net.output(conv(net, net("Reshape", turned, [1, -1, 6, 6]), 32, 16, 1))


@block
def concat_of_branches(net: Net) -> None:
    x = net("Relu", conv(net, image(net), 16, 16, 1))
    branches = [net("Relu", conv(net, x, 16, 16, k)) for k in (1, 3)]
    pooled = net("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    net.output(net("Concat", *branches, net("Relu", conv(net, pooled, 16, 16, 1)), axis=1))


@block
def dense_block(net: Net) -> None:
    features = [net("Relu", conv(net, image(net), 16, 16, 1))]
    for _ in range(3):
        joined = net("Concat", *features, axis=1)
        features.append(conv(net, net("Relu", joined), 16 * len(features), 16, 1))
    net.output(net("Concat", *features, axis=1))


@block
def classifier(net: Net) -> None:
    x = net("MaxPool", image(net), kernel_shape=[2, 2], strides=[2, 2])
    pooled = net("Flatten", net("GlobalAveragePool", x))
    logits = net("Gemm", pooled, net.weight(10, 16), net.weight(10), transB=1)
    net.output(net("Softmax", logits, axis=-1))


@block
def hand_made_activations(net: Net) -> None:
    """Hard swish, GELU and Mish as exporters write them out."""
    x = image(net, 16, 4)
    six, three = (net.const(np.array(v, F32)) for v in (6, 3))
    swish = net("Mul", x, net("Div", net("Clip", net("Add", x, three), 0.0, six), six))
    half, one, root = (net.const(np.array(v, F32)) for v in (0.5, 1, np.sqrt(2)))
    gelu = net("Mul", net("Mul", swish, net("Add", net("Erf", net("Div", swish, root)), one)), half)
    net.output(net("Mul", gelu, net("Tanh", net("Softplus", gelu))))


@block
def gelu_by_tanh(net: Net) -> None:
    """GELU's approximation as exporters write it out: with a power."""
    x = image(net, 16, 4)
    three, small, root, one, half = (net.const(np.array(v, F32)) for v in (3, 0.044715, np.sqrt(2 / np.pi), 1, 0.5))
    inner = net("Mul", net("Add", x, net("Mul", net("Pow", x, three), small)), root)
    net.output(net("Mul", net("Mul", x, net("Add", net("Tanh", inner), one)), half))


@block
def decoder(net: Net) -> None:
    deep, flat = net.input("deep", (1, 16, 4, 4)), net.input("flat", (1, 8, 8, 8))
    scales = net.const(np.array([1, 1, 2, 2], F32))
    x = net("Resize", conv(net, deep, 16, 16), "", scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    net.output(net("Relu", conv(net, net("Concat", x, flat, axis=1), 24, 16)))


@block
def computed_shape(net: Net) -> None:
    """x.view(x.size(0), x.size(1), -1) and a transpose, as PyTorch writes attention inputs."""
    x = conv(net, image(net), 16, 16)
    shape = net("Shape", x)
    sizes = [net("Gather", shape, np.array(i, I64), axis=0) for i in (0, 1)]
    ends = [net("Unsqueeze", size, [0]) for size in sizes]
    target = net("Concat", *ends, [-1], axis=0)
    net.output(net("MatMul", net("Transpose", net("Reshape", x, target), perm=[0, 2, 1]), net.weight(16, 24)))


@block
def layer_norm_by_hand(net: Net) -> None:
    x = net.input("x", (1, 4, 16))
    centered = net("Sub", x, net("ReduceMean", x, axes=[-1]))
    variance = net("ReduceMean", net("Pow", centered, 2.0), axes=[-1])
    spread = net("Sqrt", net("Add", variance, 1e-3))
    net.output(net("Add", net("Mul", net("Div", centered, spread), net.weight(16)), net.weight(16)))


@rare
def far_taps(net: Net) -> None:
    """A dilated layer of a map in which all but the tap in the middle see padding."""
    net.output(net("Relu", conv(net, image(net, 8, 6), 8, 4, dilations=[6, 6], pads=[6] * 4)))


@rare
def normalized_rows(net: Net) -> None:
    """As torch's `normalize` is written: the norm is expanded to the shape of what it divides."""
    x = net.input("x", (2, 4, 16))
    norm = net("Clip", net("ReduceL2", x, axes=[-1]), 1e-12)
    net.output(net("Div", x, net("Expand", norm, net("Shape", x))))


@rare
def nothing_and_sums(net: Net) -> None:
    """Operators that change nothing, and sums of several values."""
    x = net("Cast", net("Dropout", image(net)), to=1)
    y = net("Sum", x, net("Sigmoid", x), net("Tanh", x))
    net.output(net("Mean", net("Max", x, y, net("Neg", x)), y))


@rare
def cut_and_pick(net: Net) -> None:
    """Slices and gathers of channels between convolutions, whose layout they keep."""
    x = conv(net, image(net), 16, 16)
    ends = [net.const(np.array(v, I64)) for v in ([4], [12], [1])]
    picked = net("Gather", x, [3, 1, 1, 8], axis=1)
    net.output(conv(net, net("Concat", net("Slice", x, *ends), picked, axis=1), 12, 16))


@rare
def gathered_channels(net: Net) -> None:
    """A shuffle of channels by a table, and every other one."""
    x = net("Gather", conv(net, image(net), 16, 16), np.arange(16).reshape(4, 4).T.ravel(), axis=1)
    net.output(conv(net, net("Gather", x, np.arange(0, 16, 2), axis=1), 8, 16))


@rare
def scaled_pairs(net: Net) -> None:
    """A factor for each pair of numbers."""
    net.output(net("Mul", net.input("x", (1, 5, 12, 2)), net.weight(12, 1)))


@rare
def groups_by_reshapes(net: Net) -> None:
    """A normalization of groups of channels as one of instances, without a scale of its own."""
    x = conv(net, image(net), 16, 16)
    groups = net("Reshape", x, [0, 4, -1])
    y = net("InstanceNormalization", groups, [1.0] * 4, [0.0] * 4)
    y = net("Mul", net("Reshape", y, net("Shape", x)), net.weight(16, 1, 1))
    net.output(conv(net, net("Relu", net("Add", y, net.weight(16, 1, 1))), 16, 16))


@rare
def shuffled_pixels(net: Net) -> None:
    deep = net("SpaceToDepth", image(net), blocksize=2)
    net.output(net("DepthToSpace", conv(net, deep, 64, 32), blocksize=2, mode="CRD"))


@rare
def pooled_planes(net: Net) -> None:
    """Nothing but pools between the orders of channels."""
    for op in ("MaxPool", "AveragePool"):
        net.output(net(op, net.input(op, (1, 3, 4, 16)), kernel_shape=[3, 3], pads=[1, 1, 1, 1]))


@rare
def depthwise_transposed(net: Net) -> None:
    """Twice as wide and high, with weights for each channel."""
    y = net("ConvTranspose", image(net, 8, 4), net.weight(8, 1, 4, 3), net.weight(8), group=8, strides=[2, 2],
            pads=[1, 1, 1, 1])  # fmt: skip
    net.output(net("Relu", y))


@rare
def norms(net: Net) -> None:
    """Normalizations, and a reduction over axes that lie apart."""
    x = net("InstanceNormalization", image(net), net.weight(16), net.weight(16))
    y = net("LayerNormalization", x, net.weight(8), net.weight(8), axis=-1)
    net.output(net("ReduceSum", y, [1, 3], keepdims=0))


@rare
def groups_of_channels(net: Net) -> None:
    """A normalization of them behind a convolution, and one of rows whose mean is wanted, too."""
    net.opset = 18
    x = net("GroupNormalization", conv(net, image(net), 16, 16), *[net.weight(4), net.weight(4)], num_groups=4)
    y, mean = net("LayerNormalization", x, net.weight(8), outputs=2)
    net.output(net("Add", y, mean))


@rare
def powers(net: Net) -> None:
    """Whole exponents, of which the small ones are products."""
    x = conv(net, image(net), 16, 16)
    cubed = net("Pow", x, 3.0)
    inverse = net("Pow", net("Exp", x), -2.0)
    net.output(net("Add", cubed, net("Add", inverse, net("Pow", cubed, 5.0))))


@rare
def sums_of_products(net: Net) -> None:
    """Of named axes: a diagonal, a sum, products of stacks and of three operands."""
    x, y = net.input("x", (2, 3, 4)), net.input("y", (2, 3, 3))
    inner = net("Einsum", net("Tanh", x), y, net.weight(4, 5), equation="bij,bki,jh->bkh")
    net.output(net("Einsum", y, inner, equation="...ii,...ih->...h"))


@rare
def losses(net: Net) -> None:
    """Of four classes, of which one counts twice, with numbers of no class among the targets."""
    x, target = net.input("x", (2, 4, 3)), net.const(np.array([[0, 3, -1], [-1, 2, 2]], I64))
    weights = net.const(np.array([1, 2, 1, 1], F32))
    attrs = {"ignore_index": -1, "reduction": "mean"}
    total, rows = net("SoftmaxCrossEntropyLoss", x, target, weights, outputs=2, **attrs)
    net.output(net("Add", total, net("NegativeLogLikelihoodLoss", net("Exp", rows), target, reduction="none",
                                     ignore_index=-1)))  # fmt: skip


@rare
def pairs_of_words(net: Net) -> None:
    """How often they are in a text, alone and beside one another or with a word in between."""
    words = net("Cast", net("Clip", net("Mul", net.input("x", (2, 7)), 3.0), 0.0), to=7)
    pool = {"ngram_counts": [0, 2], "pool_int64s": [0, 1, 0, 0, 0, 1, 2, 0], "ngram_indexes": [0, 1, 4, 3, 5]}
    net.output(net("TfIdfVectorizer", words, mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
                   weights=[1.0, 0.5, 2.0, 2.0, 3.0], **pool))  # fmt: skip


@rare
def small_functions(net: Net) -> None:
    """Determinants, a shrinkage, places of pixels, an image with the mean of 0, a normalization by computed numbers."""
    x = net.input("x", (1, 3, 4, 4))
    parameters = [net("Exp", net.input(name, (3,))) for name in ("scale", "bias", "mean", "var")]
    y = net("BatchNormalization", net("MeanVarianceNormalization", x), *parameters)
    corner = net("Slice", y, *(np.array(v, I64) for v in ([0, 0], [3, 3], [2, 3])))
    _, places = net("MaxPool", x, kernel_shape=[2, 2], outputs=2)
    net.output(net("Cast", places, to=1))
    net.output(net("Det", net("Shrink", corner, lambd=0.3, bias=0.1)))


@newest
def linear_attention(net: Net) -> None:
    """A recurrence over five tokens and one over a single one, behind a convolution that remembers; a cache that goes
    round.
    """
    net.opset = 28
    x = net.input("x", (1, 5, 12))
    turned = net("Transpose", x, perm=[0, 2, 1])
    y, kept = net("CausalConvWithState", turned, net.weight(12, 1, 3), net.weight(12), outputs=2, activation="silu")
    y = net("Transpose", y, perm=[0, 2, 1])
    k, v, beta = (net("MatMul", y, net.weight(12, n)) for n in (6, 4, 2))
    decay = net("Neg", net("Exp", k))
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    z, state = net("LinearAttention", y, k, v, "", decay, beta, outputs=2, **heads)
    one = [net("Slice", part, *(np.array(n, I64) for n in ([0], [1], [1]))) for part in (y, k, v)]
    after, state = net("LinearAttention", *one, state, outputs=2, update_rule="linear", **heads)
    at = net("Cast", net("ReduceMin", net("Exp", after), keepdims=0), to=7)
    at = net("Reshape", at, [1])
    cache = net("TensorScatter", state, pieces(net, after), at, mode="circular", axis=-2)
    net.output(net("SwiGLU", z, net("Neg", z)), cache, kept)


def pieces(net: Net, x: str) -> str:
    """[1, 1, 8] as what two heads are given."""
    return net("Reshape", x, [1, 2, 2, 2])


@rare
def heads_with_positions(net: Net) -> None:
    """Attention of one sequence, whose queries and keys are turned by where they stand."""
    x, at = net.input("x", (1, 4, 16)), net.const(np.arange(4)[None], I64)
    q, k, v = (net("MatMul", x, net.weight(16, 16)) for _ in range(3))
    tables = [net.weight(8, 4), net.weight(8, 4)]
    q, k = (net("RotaryEmbedding", y, at, *tables, domain="com.microsoft", num_heads=2) for y in (q, k))
    net.output(net("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=2, unidirectional=1))


def heads(net: Net, x: str, *shape: int) -> str:
    """[images, rows, heads * size] as [images, heads, rows, size]."""
    return net("Transpose", net("Reshape", x, np.array(shape, I64)), perm=[0, 2, 1, 3])


@block
def attention(net: Net) -> None:
    """As PyTorch's exporter writes it: one layer for queries, keys and values, and a root of the scale on each side."""
    x = net.input("x", (1, 6, 32))
    packed = net("Reshape", net("MatMul", x, net.weight(32, 96)), [1, 6, 3, 2, 16])
    parts = net("Split", net("Transpose", packed, perm=[2, 0, 3, 1, 4]), axis=0, outputs=3)
    q, k, v = (net("Squeeze", part, [0]) for part in parts)
    root = net.const(F32.type(0.5))
    scores = net("MatMul", net("Mul", q, root), net("Transpose", net("Mul", k, root), perm=[0, 1, 3, 2]))
    mask = net.const(np.triu(np.full((6, 6), -np.inf, F32), 1))
    weights = net("Softmax", net("Add", scores, mask), axis=-1)
    weights = net("Where", net("IsNaN", weights), F32.type(0), weights)
    y = net("Transpose", net("MatMul", weights, v), perm=[0, 2, 1, 3])
    y = net("Reshape", y, [1, 6, 32])
    net.output(net("MatMul", y, net.weight(32, 32)))


@block
def attention_of_maps(net: Net) -> None:
    """Channels before places, as behind a convolution: values stand before the turned weights."""
    x = net("Transpose", net("MatMul", net.input("x", (1, 12, 16)), net.weight(16, 48)), perm=[0, 2, 1])
    packed = net("Reshape", x, [1, 2, 24, 12])
    q, k, v = net("Split", packed, axis=2, outputs=3)
    scores = net("MatMul", net("Transpose", q, perm=[0, 1, 3, 2]), k)
    weights = net("Softmax", net("Add", scores, net.weight(2, 12, 12)), axis=-1)
    y = net("MatMul", v, net("Transpose", weights, perm=[0, 1, 3, 2]))
    y = net("Transpose", net("Reshape", y, [1, 16, 12]), perm=[0, 2, 1])
    net.output(net("MatMul", y, net.weight(16, 16)))


@block
def attention_of_groups(net: Net) -> None:
    """A step of a decoder: keys and values behind a cache, repeated for the heads that share them."""
    x, past = net.input("x", (2, 1, 32)), [net.input(name, (2, 2, 5, 8)) for name in ("k", "v")]
    q = heads(net, net("MatMul", x, net.weight(32, 32)), 2, 1, 4, 8)
    spread = []
    for before in past:
        now = heads(net, net("MatMul", x, net.weight(32, 16)), 2, 1, 2, 8)
        whole = net("Concat", before, now, axis=2)
        net.output(whole)
        whole = net("Unsqueeze", whole, [2])
        whole = net("Expand", whole, [2, 2, 2, 6, 8])
        spread.append(net("Reshape", whole, [2, 4, 6, 8]))
    scores = net("Div", net("MatMul", q, net("Transpose", spread[0], perm=[0, 1, 3, 2])), F32.type(8**0.5))
    scores = net("Add", scores, net.input("mask", (2, 1, 1, 6)))
    y = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), spread[1]), perm=[0, 2, 1, 3])
    net.output(net("Reshape", y, [2, 1, 32]))


@rare
def attention_operators(net: Net) -> None:
    """With a cache and a mask; in f16, where the results are exact."""
    net.opset = 23
    x, k, v = (net.input(name, (1, rows, 16)) for name, rows in (("x", 3), ("k", 4), ("v", 4)))
    past = [net.input(f"past_{name}", (1, 2, 2, 8)) for name in "kv"]
    mask = net.const(np.arange(18).reshape(3, 6) % 4 != 1)
    net.output(*net("Attention", x, k, v, mask, *past, outputs=3, q_num_heads=2, kv_num_heads=2, is_causal=1))
    half = [net("Cast", y, to=10) for y in (net("Sub", x, x), x, net("Sign", x))]
    half[1] = net("Sub", half[1], half[1])
    even = [net("Reshape", y, [1, 12, 4]) for y in half]
    y = net("Attention", *even, q_num_heads=1, kv_num_heads=1)
    net.output(net("Mul", net("Cast", y, to=1), F32.type(12)))


@rare
def turned_features(net: Net) -> None:
    """By their positions' angles: halves of heads, and neighbors within a part of them."""
    net.opset = 23
    x, angles = net.input("x", (1, 6, 32)), np.arange(28).reshape(7, 4) / 9
    cache = [net.const(np.cos(angles), F32), net.const(np.sin(angles), F32)]
    places = net.const(np.array([[0, 3, 2, 1, 6, 5]], I64))
    y = net("RotaryEmbedding", x, *cache, places, num_heads=4)
    even = net("RotaryEmbedding", x, *cache, places, num_heads=2, rotary_embedding_dim=8, interleaved=1)
    net.output(net("Add", y, even))


@rare
def rows_at_expanded_indices(net: Net) -> None:
    """What torch's gather and scatter_add write for rows, and a product with a vector."""
    x, at = net.input("x", (6, 8)), net("ArgMax", net.input("y", (5, 6)), axis=1)
    spread = net("Expand", at, [5, 8])
    sums = net("ScatterElements", net("Sign", x), spread, net("GatherElements", x, spread, axis=0), axis=0)
    net.output(net("MatMul", sums, net.weight(8)))


@block
def rms_norm_by_hand(net: Net) -> None:
    x = net.input("x", (1, 4, 16))
    mean = net("ReduceMean", net("Pow", x, 2.0), axes=[-1])
    root = net("Sqrt", net("Add", mean, 1e-3))
    net.output(net("Mul", net.weight(16), net("Mul", x, net("Div", F32.type(1), root))))


@rare
def neighbors_and_stacks(net: Net) -> None:
    x = net("LRN", net.input("x", (1, 6, 4, 4)), size=3, alpha=0.5)
    y = net("MatMul", net("LpNormalization", x, axis=1, p=2), net.input("y", (3, 1, 4, 2)))
    net.output(net("Hardmax", net("LRN", y, size=11), axis=1))


@rare
def weights_made_at_run_time(net: Net) -> None:
    x = net("Conv", image(net, 4), net.input("w", (6, 4, 3, 3)), net.input("b", (6,)), pads=[1, 1, 1, 1])
    x = net("Conv", x, net.input("d", (6, 1, 3, 3)), group=6, strides=[2, 2])
    x = net("Conv", x, net.input("g", (4, 3, 1, 1)), group=2)
    x = net("ConvTranspose", x, net.input("t", (4, 3, 3, 2)), strides=[2, 1], pads=[1, 0, 0, 1])
    net.output(net("Conv", x, net.weight(5, 3, 2, 2), net.input("c", (5,))))


@rare
def groups_and_grids(net: Net) -> None:
    net.opset = 21
    x = net("GroupNormalization", net.input("x", (2, 6, 3, 4)), net.weight(6), net.weight(6), num_groups=3)
    grid = net("AffineGrid", net.input("theta", (2, 2, 3)), [2, 6, 5, 4], align_corners=1)
    few = net("GridSample", net.input("map", (1, 2, 8, 8)), net.input("places", (1, 1, 3, 2)))
    net.output(net("GridSample", x, grid), few)


@rare
def element_types(net: Net) -> None:
    x, whole, none = net.input("x", (2, 3, 8)), net.input("i", (2, 3, 8), np.int32), net.input("z", (), I64)
    half = net("Cast", x, to=TensorProto.FLOAT16)
    double = net("Cast", x, to=TensorProto.DOUBLE)
    net.output(net("ReduceLogSumExp", double, axes=[0, 2]), net("Softmax", double, axis=1), dtype=np.float64)
    net.output(net("ReduceMean", whole, axes=[1]), dtype=np.int32)
    net.output(net("ArgMax", net("Cast", whole, to=TensorProto.INT8), select_last_index=1), dtype=I64)
    net.output(net("Cast", net("Cast", half, to=TensorProto.BFLOAT16), to=TensorProto.FLOAT), net("Atan", x))
    net.output(net("Pow", x, 2))
    net.output(net("CumSum", x, net("Mul", none, 0)))
    signs, at = net("Greater", x, 0.0), net.const(np.array([[1], [1]], I64))
    found = net("ScatterND", signs, at, net("Not", signs), reduction="mul")
    net.output(net("Cast", found, to=TensorProto.FLOAT))


@rare
def einsum_and_pixels(net: Net) -> None:
    q, k = (net.input(name, (2, 5, 3, 8)) for name in "qk")
    net.output(net("Einsum", q, k, net.weight(3), net.weight(2, 9), equation="bqhd,bkhd,h,bx->bhqk"))
    net.output(net("MeanVarianceNormalization", q, axes=[1, 3]))
    x = net.input("x", (1, 2, 4, 5), np.uint8)
    net.output(net("Resize", x, "", "", [1, 2, 8, 5], mode="linear"), dtype=np.uint8)


@rare
def few_rows_by_a_turned_matrix(net: Net) -> None:
    """Scores of one query by all keys, which nothing normalizes."""
    keys = net("Transpose", net.input("keys", (2, 12, 16)), perm=[0, 2, 1])
    net.output(net("MatMul", net.input("query", (2, 1, 16)), keys))
