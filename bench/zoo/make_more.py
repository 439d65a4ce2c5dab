"""Write networks that are no image classifiers as FOLDER/NAME.onnx: transformers, recurrent ones, audio, detection.

    pip install torch onnx transformers timm && pip install --no-deps torchvision pillow
    python bench/zoo/make_more.py FOLDER [NAME...]

Weights are random, all is float32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))

import torch  # noqa: E402
from torch import nn  # noqa: E402


class Made(NamedTuple):
    net: nn.Module
    inputs: tuple[torch.Tensor, ...]
    names: tuple[str, ...] = ("x",)


MORE: dict[str, Callable[[], Made]] = {}


def more(build: Callable[[], Made]) -> Callable[[], Made]:
    MORE[build.__name__] = build
    return build


def encoder(length: int) -> Made:
    """The shape of MiniLM-L6, without the layer that pools."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=8000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    net = BertModel(config, add_pooling_layer=False)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.net(input_ids=ids, attention_mask=mask, return_dict=False)[0]

    return Made(Last(), (torch.randint(0, 8000, (1, length)), torch.ones(1, length, dtype=torch.long)), ("ids", "mask"))


@more
def bert_mini() -> Made:
    return encoder(128)


@more
def bert_mini_16() -> Made:
    return encoder(16)


@more
def whisper_encoder() -> Made:
    """Of the tiny model: 30 seconds of 80 mel bands."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = WhisperEncoder(WhisperConfig(attn_implementation="eager"))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x, return_dict=False)[0]

    return Made(First(), (torch.randn(1, 80, 3000),))


def of_timm(name: str) -> Made:
    import timm

    return Made(timm.create_model(name), (torch.randn(1, 3, 224, 224),))


@more
def vit_tiny() -> Made:
    return of_timm("vit_tiny_patch16_224")


@more
def ghostnet_100() -> Made:
    return of_timm("ghostnet_100")


class Recurrent(nn.Module):
    """Two layers, and a dense one for each step."""

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(40, hidden, 2, batch_first=True)
        self.last = nn.Linear(hidden, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x)[0])


@more
def lstm_2x128() -> Made:
    return Made(Recurrent("LSTM", 128), (torch.randn(1, 50, 40),))


@more
def gru_2x96() -> Made:
    return Made(Recurrent("GRU", 96), (torch.randn(1, 100, 40),))


@more
def tcn_audio() -> Made:
    """Dilated convolutions over half a second of sound."""
    layers: list[nn.Module] = [nn.Conv1d(1, 64, 10, 5), nn.GELU()]
    for d in (1, 2, 4, 8, 16):
        layers += [nn.Conv1d(64, 64, 3, dilation=d, padding=d), nn.GroupNorm(8, 64), nn.PReLU()]
    return Made(nn.Sequential(*layers, nn.Conv1d(64, 10, 1)), (torch.randn(1, 1, 8000),))


class Reader(nn.Module):
    """Reads a line of text: convolutions make a row of its image, LSTMs go along it both ways."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i, o, pool in ((1, 32, 2), (32, 64, 2), (64, 128, 0), (128, 128, (2, 1)), (128, 256, (2, 1))):
            layers += [
                nn.Conv2d(i, o, 3, padding=1),
                nn.BatchNorm2d(o),
                nn.ReLU(),
                *([nn.MaxPool2d(pool)] if pool else []),
            ]
        self.rows, self.last = nn.Sequential(*layers, nn.Conv2d(256, 256, 2), nn.ReLU()), nn.Linear(256, 97)
        self.along = nn.LSTM(256, 128, 2, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.along(self.rows(x).mean(2).transpose(1, 2))[0])


@more
def text_reader() -> Made:
    return Made(Reader(), (torch.randn(1, 1, 64, 200),))


@more
def groups_audio() -> Made:
    """Separable and grouped convolutions over a second of spectra."""
    layers: list[nn.Module] = [nn.Conv1d(40, 128, 5, 2, 2), nn.ReLU()]
    for d in (1, 2, 4, 8):
        layers += [nn.Conv1d(128, 128, 7, padding=3 * d, dilation=d, groups=128), nn.Conv1d(128, 128, 1), nn.ReLU()]
        layers += [nn.Conv1d(128, 128, 3, padding=1, groups=4), nn.ReLU()]
    return Made(nn.Sequential(*layers, nn.Conv1d(128, 32, 1)), (torch.randn(1, 40, 200),))


class UNet(nn.Module):
    """Two levels down and up again, and a mask of two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(self.block, (3, 24, 48), (24, 48, 96)))
        self.up, self.upper = nn.ConvTranspose2d(96, 48, 2, 2), self.block(96, 48)
        self.wide, self.top = nn.Upsample(scale_factor=2, mode="bilinear"), self.block(72, 24)
        self.last, self.pool = nn.Conv2d(24, 2, 1), nn.MaxPool2d(2)

    @staticmethod
    def block(i: int, o: int) -> nn.Module:
        first = nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.SiLU()
        return nn.Sequential(*first, nn.Conv2d(o, o, 3, padding=1), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down[0](x)
        b = self.down[1](self.pool(a))
        c = self.down[2](self.pool(b))
        d = self.upper(torch.cat([self.up(c), b], 1))
        return self.last(self.top(torch.cat([self.wide(d), a], 1))).softmax(1)


@more
def unet_small() -> Made:
    return Made(UNet(), (torch.randn(1, 3, 192, 192),))


def conv(i: int, o: int, k: int = 1, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, bias=False), nn.BatchNorm2d(o), nn.SiLU())


class Branched(nn.Module):
    """Half of the channels go through blocks, each of which is also read at the end."""

    def __init__(self, i: int, o: int, blocks: int) -> None:
        super().__init__()
        half = o // 2
        self.first, self.last = conv(i, o), conv(half * (blocks + 2), o)
        self.blocks = nn.ModuleList(nn.Sequential(conv(half, half, 3), conv(half, half, 3)) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """Boxes of two scales, decoded within, and the 100 best of them."""

    def __init__(self) -> None:
        super().__init__()
        stem = conv(3, 16, 3, 2), conv(16, 32, 3, 2), Branched(32, 32, 1), conv(32, 64, 3, 2), Branched(64, 64, 2)
        self.stem, self.deep = nn.Sequential(*stem), nn.Sequential(conv(64, 128, 3, 2), Branched(128, 128, 1))
        self.narrow, self.pool, self.joined = conv(128, 64), nn.MaxPool2d(5, 1, 2), conv(256, 128)
        self.up, self.neck = nn.Upsample(scale_factor=2), Branched(192, 64, 1)
        self.heads = nn.ModuleList([nn.Conv2d(64, 85, 1), nn.Conv2d(128, 85, 1)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = self.stem(x)
        pools = [self.narrow(self.deep(a))]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        b = self.joined(torch.cat(pools, 1))
        maps = self.neck(torch.cat([a, self.up(b)], 1)), b
        found = [self.decoded(head(m), step) for m, head, step in zip(maps, self.heads, (8, 16), strict=True)]
        rows = torch.cat(found, 1)
        scores, classes = (rows[..., 4:5] * rows[..., 5:]).max(-1)
        scores, best = scores.topk(100)
        boxes = rows[..., :4].gather(1, best.unsqueeze(-1).expand(-1, -1, 4))
        return boxes, scores, classes.gather(1, best)

    @staticmethod
    def decoded(m: torch.Tensor, step: int) -> torch.Tensor:
        h, w = m.shape[2:]
        rows = m.flatten(2).transpose(1, 2).sigmoid()
        y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([x, y], -1).reshape(1, -1, 2).float()
        centers, sizes = (rows[..., :2] * 2 - 0.5 + grid) * step, (rows[..., 2:4] * 2) ** 2 * step * 4
        return torch.cat([centers, sizes, rows[..., 4:]], -1)


@more
def yolo_like() -> Made:
    return Made(Detector(), (torch.randn(1, 3, 320, 320),))


class Decoder(nn.Module):
    """A block of a decoder: one token, with the keys and values of those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.wide, self.narrow = (
            nn.Linear(i, o) for i, o in ((256, 768), (256, 256), (256, 1024), (1024, 256))
        )
        self.norms = nn.ModuleList([nn.LayerNorm(256), nn.LayerNorm(256)])

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = (t.view(1, -1, 8, 32).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        seen = (q @ keys.transpose(-1, -2) / 32**0.5).softmax(-1) @ values
        x = x + self.out(seen.transpose(1, 2).reshape(1, 1, 256))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x)))), keys, values


@more
def gpt_step() -> Made:
    past = torch.randn(2, 1, 8, 63, 32)
    return Made(Decoder(), (torch.randn(1, 1, 256), past[0], past[1]), ("x", "k", "v"))


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or MORE:
        torch.manual_seed(0)
        net, inputs, known = MORE[name]()
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d):  # fresh ones do nothing
                nn.init.normal_(layer.running_mean, 0, 0.1)
                nn.init.uniform_(layer.running_var, 0.5, 1.5)
        path = folder / f"{name}.onnx"
        torch.onnx.export(net.eval(), inputs, str(path), dynamo=False, opset_version=17, input_names=list(known))
        print(path, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
