"""Operators beyond ai.onnx: what each takes and gives, and the rules that write them. Those of onnxruntime's own
domain, com.microsoft, go by their names, others by domain and name.

A rule stands in the file of its family, `contrib_*.py`, which is imported when a file has one of its operators, under
its signature in the notation of `signature_table`. Semantics: onnxruntime's docs/ContribOperators.md and CPU kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...families import Families
from .call import Rule
from .signatures import Signature, parsed

DOMAIN = "com.microsoft"

Entry = tuple[Signature, Rule]
Written = TypeVar("Written", bound=Rule)

_defined: dict[str, Entry] = {}


def contrib(*signatures: str) -> Callable[[Written], Written]:
    """Register the rule of operators, each given as `Name: X Y? -> Z | attribute=default`."""

    def register(rule: Written) -> Written:
        for text in signatures:
            name, _, rest = text.partition(":")
            _defined[name] = parsed(rest), rule
        return rule

    return register


CONTRIB: Families[Entry] = Families(
    __package__,
    {
        "contrib_attention": "Attention QAttention MultiHeadAttention",
        "contrib_group_query": "RotaryEmbedding GroupQueryAttention",
        "contrib_preview": """
            ai.onnx.preview.FlexAttention ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam
            ai.onnx.preview.training.Momentum
        """,
        "contrib_fused": """
            FusedConv NhwcFusedConv NhwcConv NhwcMaxPool FusedGemm FusedMatMul TransposeMatMul GemmFastGelu Gelu
            BiasGelu FastGelu QuickGelu BiasAdd BiasSplitGelu
        """,
        "contrib_norm": """
            SkipLayerNormalization SkipSimplifiedLayerNormalization EmbedLayerNormalization QEmbedLayerNormalization
            GroupNorm SkipGroupNorm
        """,
        "contrib_recurrent": "DynamicQuantizeLSTM",
        "contrib_packed": "MatMulNBits MatMulBnb4 GatherBlockQuantized",
        "contrib_rare": """
            Trilu Pad Unique ExpandDims Range GatherND GridSample SampleOp Inverse CDist
            ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.LabelEncoder
        """,
        "contrib_ml": """
            ai.onnx.ml.Scaler ai.onnx.ml.Normalizer ai.onnx.ml.LinearRegressor ai.onnx.ml.LinearClassifier
            ai.onnx.ml.SVMRegressor ai.onnx.ml.Imputer ai.onnx.ml.OneHotEncoder ai.onnx.ml.FeatureVectorizer
            ai.onnx.ml.ZipMap
        """,
        "contrib_trees": """
            ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor
        """,
        "contrib_linear": """
            QuantizeLinear DequantizeLinear QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearSoftmax
            QLinearConcat QLinearWhere QLinearReduceMean QLinearGlobalAveragePool QLinearAveragePool QLinearConv QGemm
            MatMulIntegerToFloat DynamicQuantizeMatMul
        """,
    },
    _defined,
)
"""By name."""
