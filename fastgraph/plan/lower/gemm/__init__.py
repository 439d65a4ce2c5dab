"""Products with weights and of matrices: dense layers, convolutions and transposed ones, matrix products."""
