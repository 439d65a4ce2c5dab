"""Which kernels a change leaves as they were: their IR, at two commits, side by side."""
