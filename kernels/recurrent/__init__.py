"""Recurrent layers: steps over time that each multiply the state by matrices."""
