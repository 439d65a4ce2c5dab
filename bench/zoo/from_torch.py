"""torchvision's networks as the scripts beside this file export them: seeded weights, and statistics that matter."""

from __future__ import annotations

import sys
from types import ModuleType

# torchvision's package on PyPI has operators built for another torch; no classifier uses them.
sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))

import torch  # noqa: E402
from torchvision import models  # noqa: E402

BARE = {"googlenet": {"aux_logits": False, "init_weights": False}}
"""Arguments that leave out what only training needs."""


def network(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """The network for inference, and an image [1, 3, 224, 224] of noise for it."""
    torch.manual_seed(0)
    net = models.get_model(name, weights=None, **BARE.get(name, {}))
    for layer in net.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):  # fresh ones do nothing, and folding them would show nothing
            torch.nn.init.normal_(layer.running_mean, 0, 0.1)
            torch.nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return net.eval(), torch.randn(1, 3, 224, 224)
