"""Operators that few networks have: which rule writes each by others. See `rewrite.rules_for`."""

UNCOMMON = {
    "doubles.double": """
        sigmoid tanh softplus softsign mish hard_swish hard_sigmoid swish swiglu leaky_relu thresholded_relu elu celu
        selu gelu shrink
    """,
    "doubles.square": "pow",
    "spectra.audio_spectrogram": "audio_spectrogram",
    "spectra.complex_abs": "complex_abs",
    "spectra.dft": "dft",
    "spectra.hadamard_rotation": "hadamard_rotation",
    "spectra.mfcc": "mfcc",
    "spectra.part": "real imag",
    "spectra.rfft2d": "rfft2d",
    "spectra.stft": "stft",
}
