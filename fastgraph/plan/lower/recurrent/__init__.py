"""Recurrent layers: their inputs times weights as one product, then a walk over the steps."""
