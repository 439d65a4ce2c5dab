"""Many images on all CPUs: a batch callable of Ray Data, an actor a CPU, with weights that all actors share.

    pip install 'fastgraph-runtime[ray]'
    python ray_batch.py

The network and the images are those that ship with fastgraph; with your own, read them by `ray.data.read_images` or
`read_parquet`, and write results by `write_parquet`.
"""

from __future__ import annotations

import numpy as np
import ray

import fastgraph.ray
from fastgraph.demo import MODEL, held_out


def classified(actors: int) -> list[dict]:
    """A row for each image: its `label`, and the `probabilities` of the ten digits."""
    images, labels = held_out()
    pairs = zip(images[:, 0], labels, strict=True)
    found = ray.data.from_items([{"image": image, "label": label} for image, label in pairs]).map_batches(
        fastgraph.ray.Predictor,
        fn_constructor_kwargs={"path": str(MODEL)},
        batch_size=64,
        concurrency=actors,
        num_cpus=1,
    )
    return found.take_all()


if __name__ == "__main__":
    right = [np.argmax(row["probabilities"]) == row["label"] for row in classified(actors=2)]
    print(f"{np.mean(right):.2%} of {len(right)} images are right")
