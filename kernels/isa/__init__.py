"""Instruction sets: tiers, vector emission, and the vector mathematics that every kernel shares."""
