"""Networks with the layers of MLPerf Tiny's four, and one that remembers, in Keras: weights know nothing."""

from __future__ import annotations

from collections.abc import Callable

from tensorflow.keras import Input, Model, layers

TINY: dict[str, Callable[[], Model]] = {}


def tiny(build: Callable[[], Model]) -> Callable[[], Model]:
    TINY[build.__name__] = build
    return build


def normed(x: object, clamp: bool = True) -> object:
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if clamp else x


def classified(x: object, classes: int, pool: tuple[int, int]) -> object:
    return layers.Dense(classes, activation="softmax")(layers.Flatten()(layers.AveragePooling2D(pool)(x)))


@tiny
def ic_resnet8() -> Model:
    """Images of 32 x 32 pixels into 10 classes: three residual blocks."""
    first = Input((32, 32, 3))
    x = normed(layers.Conv2D(16, 3, padding="same")(first))
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        y = normed(layers.Conv2D(width, 3, stride, padding="same")(x))
        y = normed(layers.Conv2D(width, 3, padding="same")(y), clamp=False)
        x = x if stride == 1 else layers.Conv2D(width, 1, stride, padding="same")(x)
        x = layers.ReLU()(layers.Add()([x, y]))
    return Model(first, classified(x, 10, (8, 8)))


@tiny
def vww_mobilenetv1_025_96() -> Model:
    """Images of 96 x 96 pixels, a person or none: MobileNet with a quarter of its channels."""
    first = Input((96, 96, 3))
    x = normed(layers.Conv2D(8, 3, 2, padding="same")(first))
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    widths = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    for stride, width in zip(strides, widths, strict=True):
        x = normed(layers.DepthwiseConv2D(3, stride, padding="same")(x))
        x = normed(layers.Conv2D(width, 1)(x))
    return Model(first, classified(x, 2, (3, 3)))


@tiny
def kws_dscnn() -> Model:
    """Spectra of a second of sound, 49 x 10, into 12 words."""
    first = Input((49, 10, 1))
    x = normed(layers.Conv2D(64, (10, 4), 2, padding="same")(first))
    for _ in range(4):
        x = normed(layers.DepthwiseConv2D(3, padding="same")(x))
        x = normed(layers.Conv2D(64, 1)(x))
    return Model(first, classified(x, 12, (25, 5)))


@tiny
def ad01() -> Model:
    """Spectra of a machine's sound, which it gives back: an autoencoder of ten layers."""
    first = x = Input((640,))
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = normed(layers.Dense(width)(x))
    return Model(first, layers.Dense(640)(x))


@tiny
def lstm_64() -> Model:
    """Half a second of sound, 50 x 40, into 12 words: two recurrent layers, step by step, which can be quantized."""
    first = Input((50, 40))
    x = layers.LSTM(64, return_sequences=True, unroll=True)(first)
    x = layers.LSTM(64, unroll=True)(x)
    return Model(first, layers.Dense(12, activation="softmax")(x))
