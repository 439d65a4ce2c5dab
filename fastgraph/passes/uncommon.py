"""Operators that few networks have: which rule writes each by others. See `rewrite.rules_for`."""

UNCOMMON = {
    "doubles.double": """
        sigmoid tanh softplus softsign mish hard_swish hard_sigmoid swish swiglu leaky_relu thresholded_relu elu celu
        selu gelu shrink
    """,
    "doubles.square": "pow",
    "randoms.bernoulli": "bernoulli",
    "randoms.distribution": "random_normal random_normal_like random_uniform random_uniform_like",
    "randoms.dropout": "dropout",
    "randoms.multinomial": "multinomial",
    "randoms.philox": "philox_uniform philox_normal",
    "randoms.philox_multinomial": "philox_multinomial",
    "randoms.random_bits": "random_bits",
    "regions.crop_resize": "crop_resize",
    "regions.deform_conv": "deform_conv",
    "regions.roi_align": "roi_align",
    "spectra.audio_spectrogram": "audio_spectrogram",
    "spectra.complex_abs": "complex_abs",
    "spectra.dft": "dft",
    "spectra.hadamard_rotation": "hadamard_rotation",
    "spectra.mfcc": "mfcc",
    "spectra.part": "real imag",
    "spectra.rfft2d": "rfft2d",
    "spectra.stft": "stft",
    "windows.col2im": "col2im",
    "windows.lp_pool": "lp_pool",
    "windows.max_unpool": "max_unpool",
    "windows.places_of_maxima": "max_pool",
}
