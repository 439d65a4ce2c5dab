"""Rules of quantized layers and values, for the stages of integers."""
