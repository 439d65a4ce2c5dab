"""Write 60 networks that no other script here makes as FOLDER/NAME.onnx: what fastgraph was not made for.

    pip install torch onnx onnxscript transformers timm && pip install --no-deps torchvision pillow
    python bench/zoo/make_unnamed.py FOLDER [NAME...]

Weights are random, all is float32. Every second network is written by torch's newer exporter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import unnamed_parts as parts
from make_more import Made
from torch import nn

TIMM = (
    "xcit_nano_12_p16_224 edgenext_x_small fastvit_t8 repghostnet_100 tinynet_c levit_128s mobilevit_xs hardcorenas_a "
    "coatnet_nano_rw_224 maxvit_pico_rw_256 nf_regnet_b0 dpn48b skresnet18 resnest14d cs3darknet_s gernet_s "
    "ese_vovnet19b_dw dla46x_c efficientvit_b0 efficientvit_m0 pvt_v2_b0 twins_svt_small crossvit_9_240 "
    "cait_xxs24_224 davit_tiny focalnet_tiny_srf visformer_tiny poolformer_s12 repvit_m1 mobileone_s0 starnet_s1 "
    "hgnetv2_b0 rexnet_100 hrnet_w18_small gmlp_ti16_224 convit_tiny swinv2_cr_tiny_ns_224 mobilenetv4_conv_small "
    "tiny_vit_5m_224 inception_next_atto"
).split()
NEWER = ("gpt2_prompt", "llama_prompt", "t5_encoder")
"""What the older exporter does not take."""
SMALL = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 768}
T5 = {"d_model": 256, "d_kv": 32, "d_ff": 1024, "num_layers": 4, "num_heads": 8}
APART = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 64}
WORDS = {"vocab_size": 8000}
HUGGING: dict[str, tuple[str, str, dict[str, Any], tuple[int, ...]]] = {
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForCTC", SMALL | {"vocab_size": 32}, (1, 16000)),
    "hubert": ("HubertConfig", "HubertModel", SMALL | {"feat_extract_norm": "layer", "conv_bias": True}, (1, 16000)),
    "gpt2_prompt": ("GPT2Config", "GPT2LMHeadModel", WORDS | {"n_embd": 256, "n_layer": 4, "n_head": 8}, (1, 64)),
    "llama_prompt": ("LlamaConfig", "LlamaForCausalLM", WORDS | SMALL | {"num_key_value_heads": 2}, (1, 64)),
    "t5_encoder": ("T5Config", "T5EncoderModel", WORDS | T5, (1, 64)),
    "albert": ("AlbertConfig", "AlbertModel", WORDS | SMALL | {"embedding_size": 128}, (1, 64)),
    "deberta": ("DebertaV2Config", "DebertaV2Model", WORDS | SMALL | APART, (1, 64)),
    "segformer": ("SegformerConfig", "SegformerForSemanticSegmentation", {"num_labels": 19}, (1, 3, 256, 256)),
}
"""Names of a configuration and a network of transformers, with arguments, and the shape of the input."""


class First(nn.Module):
    """The first output of a network of transformers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x, return_dict=False)[0]


def of_hugging(kind: str, net: str, options: dict[str, Any], shape: tuple[int, ...]) -> Made:
    import transformers

    config = getattr(transformers, kind)(**options, attn_implementation="eager")
    config.use_cache = False
    x = torch.randint(0, 8000, shape) if shape == (1, 64) else torch.randn(shape)
    return Made(First(getattr(transformers, net)(config)), (x,))


def of_timm(name: str) -> Made:
    import timm

    net = timm.create_model(name, exportable=True) if "efficientvit" not in name else timm.create_model(name)
    return Made(net, (torch.randn(1, *net.default_cfg["input_size"]),))


UNNAMED: dict[str, Callable[[], Made]] = {
    **{name: lambda name=name: of_timm(name) for name in TIMM},
    **{name: lambda row=row: of_hugging(*row) for name, row in HUGGING.items()},
    **parts.MADE,
}


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or UNNAMED:
        torch.manual_seed(0)
        net, inputs, known = UNNAMED[name]()
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):  # fresh ones do nothing
                nn.init.normal_(layer.running_mean, 0, 0.1)
                nn.init.uniform_(layer.running_var, 0.5, 1.5)
        newer = name in NEWER or (list(UNNAMED).index(name) % 2 == 1 and name not in parts.OLDER)
        options = {"optimize": True, "external_data": False, "verbose": False} if newer else {"opset_version": 17}
        path = folder / f"{name}.onnx"
        torch.onnx.export(net.eval(), inputs, str(path), dynamo=newer, input_names=list(known), **options)
        print(path, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
