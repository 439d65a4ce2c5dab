"""Trains the digits network and writes digits.onnx and digits.npz beside this file.

    pip install 'fastgraph-runtime[train]' && python -m fastgraph.demo.train

Data: scikit-learn's `load_digits`, 1,797 handwritten digits of 8x8 pixels with values 0..16 (the test part of
"Optical Recognition of Handwritten Digits", UCI, CC BY 4.0). A quarter of each class is held out; digits.npz holds
just that quarter. Split, initial weights and order are seeded.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SEED = 2024
EPOCHS = 60
BATCH = 32


def split(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices (training, held out), each sorted; every fourth digit of each class, in seeded order, is held out."""
    order = np.random.default_rng(SEED).permutation(len(labels))
    held = np.concatenate([order[labels[order] == digit][::4] for digit in range(10)])
    return np.setdiff1d(order, held), np.sort(held)


def network():  # type: ignore[no-untyped-def]
    """Convolutions, a depthwise one, batch norm, a residual addition, both poolings, a dense layer, softmax."""
    import torch.nn as nn

    def unit(i: int, o: int, size: int = 3, groups: int = 1) -> nn.Sequential:
        convolution = nn.Conv2d(i, o, size, padding=size // 2, groups=groups, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(o), nn.ReLU())

    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.inner = nn.Sequential(unit(channels, channels, groups=channels), unit(channels, channels, 1))

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x + self.inner(x)

    return nn.Sequential(
        unit(1, 16), unit(16, 32), nn.MaxPool2d(2), Residual(32), unit(32, 48), Residual(48),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip


def main() -> None:
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = data.images.astype(np.uint8), data.target.astype(np.uint8)
    train, held = split(labels)
    np.savez_compressed(HERE / "digits.npz", images=images[held], labels=labels[held])

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = network()
    x = torch.from_numpy(images[train]).float()[:, None] / 16
    y = torch.from_numpy(labels[train]).long()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(shifted(x[rows])), y[rows], label_smoothing=0.05).backward()
            optimizer.step()
            schedule.step()

    net.eval()
    with torch.no_grad():
        found = net(torch.from_numpy(images[held]).float()[:, None] / 16).argmax(1).numpy()
    print(f"held out: {np.mean(found == labels[held]):.2%} of {len(held)}")
    torch.onnx.export(
        torch.nn.Sequential(net, torch.nn.Softmax(1)), (torch.zeros(1, 1, 8, 8),), str(HERE / "digits.onnx"),
        dynamo=False, opset_version=17, input_names=["image"], output_names=["probabilities"],
    )  # fmt: skip


def shifted(x):  # type: ignore[no-untyped-def]
    """The images, moved by up to one pixel each way (all of them alike): more variety than the set has."""
    import torch

    down, right = (int(n) for n in torch.randint(-1, 2, (2,)))
    return torch.roll(x, (down, right), (2, 3)) if torch.rand(()) < 0.5 else x


if __name__ == "__main__":
    main()
