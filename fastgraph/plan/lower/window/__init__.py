"""Sliding windows, of f32 and of bytes: depthwise convolution, pools, and both within depth-first bands."""
