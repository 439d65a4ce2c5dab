"""Products with weights and of matrices: dense layers, convolutions and transposed ones, matrix products."""

from . import conv, conv_transpose, dense, dynamic, matmul  # noqa: F401
