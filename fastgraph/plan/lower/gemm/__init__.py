"""Dense layers, convolutions and products of matrices."""

from . import conv_int8, conv_transpose_int8, dense_int8, dynamic, matmul_int8  # noqa: F401
