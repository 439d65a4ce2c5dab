"""Recurrent layers: the product of all inputs with their weights, then a walk over the steps."""
