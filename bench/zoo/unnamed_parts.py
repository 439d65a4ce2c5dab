"""The networks of make_unnamed.py that no library has: reading, detection, sound, speech, recommending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from make_more import Made, conv
from torch import nn

MADE: dict[str, Callable[[], Made]] = {}
OLDER = ("yolo_nms", "tacotron_step", "wav2vec2", "hubert")
"""What the newer exporter does not take."""


def made(*shapes: Sequence[int], names: tuple[str, ...] = ("x",)) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Of the class below, a network that reads noise of these shapes."""

    def add(kind: type[nn.Module]) -> type[nn.Module]:
        MADE[kind.__name__] = lambda: Made(kind(), tuple(torch.randn(*shape) for shape in shapes), names)
        return kind

    return add


class Chain(nn.Module):
    """Layers one after another: `layers` of a subclass gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(*self.layers())

    def layers(self) -> list[nn.Module]:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Plus(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.net(x)


class Turned(nn.Module):
    """A layer over [n, length, channels], of an input [n, channels, length]."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x.flatten(2).transpose(1, 2)).transpose(1, 2)


def dense(width: int, wide: int = 4) -> nn.Module:
    return Plus(nn.LayerNorm(width), nn.Linear(width, wide * width), nn.SiLU(), nn.Linear(wide * width, width))


class Attend(nn.Module):
    """Self-attention behind a norm, in heads of 32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, length, 3, width // 32, 32).permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(seen.transpose(1, 2).reshape(n, length, width))


def convolved(width: int) -> nn.Module:
    """Conformer's: pointwise with a gate, depthwise over time."""
    inner = nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, 15, padding=7, groups=width)
    return Turned(Plus(*inner, nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1)))


class Flip(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


@made((1, 200, 80))
class conformer(Chain):
    def layers(self) -> list[nn.Module]:
        block = [m for _ in range(4) for m in (dense(160), Attend(160), convolved(160), dense(160), nn.LayerNorm(160))]
        return [Flip(), nn.Conv1d(80, 160, 3, 2, 1), nn.ReLU(), Flip(), *block, nn.Linear(160, 128), nn.LogSoftmax(-1)]


@made((1, 3, 32, 320))
class svtr_reader(Chain):
    def layers(self) -> list[nn.Module]:
        blocks = [m for _ in range(3) for m in (Attend(128), dense(128))]
        stem = conv(3, 32, 3, 2), conv(32, 64, 3, 2), conv(64, 128, 3, 2)
        return [*stem, Turned(nn.Sequential(*blocks)), Flip(), nn.LayerNorm(128), nn.Linear(128, 97), nn.Softmax(-1)]


@made((1, 3, 256, 256))
class db_detector(nn.Module):
    """A pyramid of three scales, joined, and a map of where text is from transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [nn.Sequential(conv(i, o, 3, 2), conv(o, o, 3)) for i, o in ((3, 16), (16, 32), (32, 64), (64, 128))]
        )
        self.sides = nn.ModuleList([nn.Conv2d(c, 96, 1, bias=False) for c in (32, 64, 128)])
        self.smooth = nn.ModuleList([nn.Conv2d(96, 24, 3, padding=1) for _ in range(3)])
        up = (
            nn.ConvTranspose2d(24, 24, 2, 2),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.ConvTranspose2d(24, 1, 2, 2),
            nn.Sigmoid(),
        )
        self.head = nn.Sequential(nn.Conv2d(72, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), *up)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = []
        for stage in self.stages:
            maps.append(x := stage(x))
        a, b, c = (side(m) for side, m in zip(self.sides, maps[1:], strict=True))
        b = b + nn.functional.interpolate(c, scale_factor=2)
        a = a + nn.functional.interpolate(b, scale_factor=2)
        up = nn.functional.interpolate
        a, b, c = (layer(m) for layer, m in zip(self.smooth, (a, b, c), strict=True))
        return self.head(torch.cat([a, up(b, scale_factor=2), up(c, scale_factor=4)], 1))


class Suppressed(torch.autograd.Function):
    """NonMaxSuppression: of boxes [1, n, 4] and scores [1, 1, n] the places [50, 3] of the best."""

    @staticmethod
    def forward(ctx: Any, boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.zeros(50, 3, dtype=torch.long)

    @staticmethod
    def symbolic(g: Any, boxes: Any, scores: Any) -> Any:
        most, overlap = (g.op("Constant", value_t=torch.tensor([number])) for number in (50, 0.5))
        return g.op("NonMaxSuppression", boxes, scores, most, overlap)


@made((1, 3, 256, 256))
class yolo_nms(nn.Module):
    """Boxes as expectations over 16 bins, classes, and what is left of them after non-maximum suppression."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1), (64, 64, 2)
        self.net = nn.Sequential(*(conv(i, o, 3, stride) for i, o, stride in widths))
        self.boxes, self.classes = nn.Conv2d(64, 64, 1), nn.Conv2d(64, 80, 1)
        self.register_buffer("bins", torch.arange(16.0).reshape(1, 1, 16, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.net(x)
        sides = (self.boxes(x).reshape(1, 4, 16, 256).softmax(2) * self.bins).sum(2).transpose(1, 2)
        scores, which = self.classes(x).reshape(1, 80, 256).sigmoid().max(1)
        near, far = sides.chunk(2, 2)
        boxes = torch.cat([8 - near, 8 + far], 2)
        kept = Suppressed.apply(boxes, scores.unsqueeze(1))[:, 2]
        return boxes[0, kept], scores[0, kept], which[0, kept]


@made((1, 1, 16000))
class encodec(Chain):
    """Sound to codes' vectors and back to sound."""

    def layers(self) -> list[nn.Module]:
        def block(c: int) -> nn.Module:
            return Plus(nn.ELU(), nn.Conv1d(c, c // 2, 3, padding=1), nn.ELU(), nn.Conv1d(c // 2, c, 1))

        down = [
            m
            for c, s in ((16, 2), (32, 4), (64, 5), (128, 8))
            for m in (block(c), nn.ELU(), nn.Conv1d(c, 2 * c, 2 * s, s, (s + 1) // 2))
        ]
        up = [
            m
            for c, s in ((256, 8), (128, 5), (64, 4), (32, 2))
            for m in (nn.ELU(), nn.ConvTranspose1d(c, c // 2, 2 * s, s, (s + 1) // 2, s % 2), block(c // 2))
        ]
        return [
            nn.Conv1d(1, 16, 7, padding=3),
            *down,
            nn.Conv1d(256, 256, 7, padding=3),
            *up,
            nn.ELU(),
            nn.Conv1d(16, 1, 7, padding=3),
        ]


@made((1, 1, 8000))
class tasnet(nn.Module):
    """Two voices told apart by masks."""

    def __init__(self) -> None:
        super().__init__()
        self.coded, self.sound = nn.Conv1d(1, 128, 16, 8, bias=False), nn.ConvTranspose1d(128, 1, 16, 8, bias=False)

        def block(d: int) -> nn.Module:
            wide = nn.Conv1d(64, 128, 1), nn.PReLU(), nn.GroupNorm(1, 128)
            deep = nn.Conv1d(128, 128, 3, padding=d, dilation=d, groups=128), nn.PReLU(), nn.GroupNorm(1, 128)
            return Plus(*wide, *deep, nn.Conv1d(128, 64, 1))

        blocks = (block(2**i) for _ in range(2) for i in range(6))
        self.mask = nn.Sequential(
            nn.GroupNorm(1, 128), nn.Conv1d(128, 64, 1), *blocks, nn.PReLU(), nn.Conv1d(64, 256, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        coded = self.coded(x)
        masks = self.mask(coded).sigmoid().reshape(2, 128, -1)
        return self.sound(coded * masks)


@made((1, 576), (2, 1, 128), names=("x", "state"))
class voice_activity(nn.Module):
    """Spectra by a convolution, their size, and an LSTM's state from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.spectra = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.net = nn.Sequential(
            nn.Conv1d(129, 128, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(128, 64, 3, 2, 1),
            nn.ReLU(),
            nn.Conv1d(64, 128, 3, 2, 1),
            nn.ReLU(),
        )
        self.along, self.last = nn.LSTMCell(128, 128), nn.Conv1d(128, 1, 1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.spectra(nn.functional.pad(x, (0, 64), "reflect").unsqueeze(1))
        x = self.net((x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()).mean(-1)
        h, c = self.along(x, (state[0], state[1]))
        return self.last(h.relu().unsqueeze(-1)).sigmoid().mean(2), torch.stack([h, c])


@made((1, 1, 40, 100))
class bc_resnet(nn.Module):
    """Keywords: two dimensions of a spectrum, and its mean over frequencies added to all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, widths = conv(1, 16, 5, (2, 1)), (16, 24, 32, 40)
        self.over = nn.ModuleList(
            [
                nn.Sequential(conv(i, o), nn.Conv2d(o, o, (3, 1), padding=(1, 0), groups=o), nn.BatchNorm2d(o))
                for i, o in zip(widths, widths[1:], strict=False)
            ]
        )
        self.along = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv2d(o, o, (1, 3), padding=(0, 1), groups=o), nn.BatchNorm2d(o), nn.SiLU(), nn.Conv2d(o, o, 1)
                )
                for o in widths[1:]
            ]
        )
        self.last = nn.Conv2d(40, 12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for over, along in zip(self.over, self.along, strict=True):
            x = over(x)
            x = (x + along(x.mean(2, keepdim=True))).relu()
        return self.last(x).mean((2, 3))


@made((1, 80), (1, 256), (1, 256), (1, 60, 128), names=("x", "h", "c", "memory"))
class tacotron_step(nn.Module):
    """A frame of speech: an LSTM, attention on the text by a sum and tanh, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.pre = nn.Sequential(nn.Linear(80, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.cell, self.query, self.key = nn.LSTMCell(128, 256), nn.Linear(256, 64), nn.Linear(128, 64, bias=False)
        self.score, self.frame = nn.Linear(64, 1), nn.Linear(384, 81)

    def forward(
        self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        h, c = self.cell(self.pre(x), (h, c))
        seen = self.score((self.query(h).unsqueeze(1) + self.key(memory)).tanh()).softmax(1)
        return self.frame(torch.cat([h, (seen * memory).sum(1)], -1)), h, c


@made((16, 13), names=("x",))
class dlrm(nn.Module):
    """Rankings: tables by numbers found in the input, and products of each pair of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(1000, 32) for _ in range(8)])
        self.low = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        self.high = nn.Sequential(nn.Linear(32 + 36, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.tril_indices(9, 9, -1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, ids = self.low(x), (x.abs() * 200).long().clamp(0, 999)
        rows = torch.stack([low, *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        products = rows @ rows.transpose(1, 2)
        return self.high(torch.cat([low, products[:, self.pairs[0], self.pairs[1]]], 1))


@made((1, 50, 64), (1, 100, 64), names=("history", "offers"))
class two_towers(nn.Module):
    """A user's history by a GRU, products with offers, and the ten best."""

    def __init__(self) -> None:
        super().__init__()
        self.along, self.offer = (
            nn.GRU(64, 64, batch_first=True),
            nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)),
        )

    def forward(self, history: torch.Tensor, offers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        user = nn.functional.normalize(self.along(history)[0][:, -1], dim=-1)
        return (nn.functional.normalize(self.offer(offers), dim=-1) @ user.unsqueeze(-1)).squeeze(-1).topk(10)


class Scaled(nn.Module):
    """RMSNorm in single operators."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


@made((1, 1, 256), (1, 2, 96, 32), (1, 2, 96, 32), (1, 1, 1, 32), names=("x", "keys", "values", "angles"))
class llama_step(nn.Module):
    """A token through a block with rotated keys, four heads to a key, and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Scaled(256), Scaled(256)])
        wides = (256, 256), (256, 64), (256, 64), (256, 256), (256, 688), (256, 688), (688, 256)
        self.q, self.k, self.v, self.out, self.gate, self.up, self.down = (
            nn.Linear(i, o, bias=False) for i, o in wides
        )

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, angles: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        def turned(t: torch.Tensor) -> torch.Tensor:
            a, b = t.chunk(2, -1)
            return t * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

        y = self.norms[0](x)
        q, k, v = (layer(y).view(1, 1, -1, 32).transpose(1, 2) for layer in (self.q, self.k, self.v))
        keys, values = torch.cat([keys, turned(k)], 2), torch.cat([values, v], 2)
        all_keys, all_values = (t[:, :, None].expand(1, 2, 4, 97, 32).reshape(1, 8, 97, 32) for t in (keys, values))
        seen = (turned(q) @ all_keys.transpose(2, 3) / 32**0.5).softmax(-1) @ all_values
        x = x + self.out(seen.transpose(1, 2).reshape(1, 1, 256))
        y = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), keys, values
