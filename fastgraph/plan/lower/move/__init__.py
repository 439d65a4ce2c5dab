"""Data movement: copies where a view won't do, gathers, pads, resizes."""
