"""Random compositions of blocks, held against other engines, against themselves, and against other plans of them."""
