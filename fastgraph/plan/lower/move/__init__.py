"""Data movement: copies that views leave to do, gathers, pads, resizes."""
