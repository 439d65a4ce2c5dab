"""Rules for quantized layers and values, in the stages that introduce integers."""
