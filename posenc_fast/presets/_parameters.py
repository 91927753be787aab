"""Types and meanings of the presets' parameters. Presets that share the name of a parameter share its text."""

from __future__ import annotations

__all__ = ["PARAMETERS", "WIDTHS"]

_WIDTHS = (
    "channels d demb depth dim dimension dims d_model embed_dim embedding_dim embedding_dims encoding_dim features"
    " hidden_size input_size num_channels num_embeddings out_channels"
)
_BASES = "base max_len max_period max_wavelength temperature temperature_height temperature_width"
_COUNTS = "frequency_num m n_frequencies n_harmonic_functions num_bands num_freqs num_frequencies series_order"
# keys: names of parameters, separated by spaces. Values: type and meaning.
_TEXTS = {
    _WIDTHS: "int: Number of columns.",
    # for the names in the next two keys, these texts replace the text above
    "dim hidden_size": "int: Number of columns. For a Rotary: width of all heads together.",
    "embed_dim": "int: Number of columns (satmae_temporal: of each axis).",
    _BASES: "float: Base of the geometric frequencies; larger values give longer wavelengths.",
    # for the names in the next two keys, these texts replace the text above
    "max_period": "float: Base of the geometric frequencies; larger values give longer wavelengths (pi0: longest wavelength).",
    "max_wavelength": "float: Base of the geometric frequencies (depthcharge: longest wavelength).",
    "max_timescale": "float: Base of the geometric frequencies. If the preset has min_timescale, the base is max_timescale / min_timescale.",
    _COUNTS: "int: Number of frequencies.",
    "max_positions": "float: Base of the geometric frequencies, and first frequency in `framediff_timesteps`.",
    "alpha": "float: Factor of all columns, which the source learns. For hunyuan: a power of it multiplies the base.",
    "axes": "int: Number of axes, 3 for video, 1 for audio.",
    "axes_dim": "sequence of int: Number of values of a head that each axis rotates.",
    "base_freq": "float: Last frequency, before the division by granularity.",
    "base_period": "float: Longest period.",
    "base_size": "int: Side of the grid that positions are scaled to.",
    "bias_1": "array_like of shape (features, k): Phases from a checkpoint, in radians.",
    "biases": "array_like of shape (k,): Phases in turns.",
    "cos_first flip_sin_to_cos": "bool: Whether cosines come before sines.",
    "downscale_freq_shift": "float: Subtracted from half the width (rounded down) in the denominator of the exponents.",
    "emb_dim": "int: Width in the source, odd and at least 3: the preset's columns, and one column of times.",
    "endpoint": "bool: Whether the last frequency is exactly 1 / max_positions.",
    "factor": "float: Divisor of the frequencies of slow pairs (gemma3: of all frequencies in full layers).",
    "frac_digit_len int_digit_len": "int: Number of digits after the decimal point (frac_digit_len) or before it (int_digit_len).",
    "frequencies": '{"exact", "float32"}: Exact values of the formula, or the float32 results of the source. With'
    ' "float32",\n    products with positions are rounded to float32 too, as in `float32_frequencies`. The'
    "\n    table then agrees with the source's float32 table, up to the last bit of a few frequencies.",
    "full_turns": "bool: Whether min_freq and max_freq are in turns instead of radians.",
    "functions": 'sequence of two of {"sin", "cos", "-sin", "-cos"}: Functions of the two columns of each frequency. ("cos", "cos") returns the table of cosines.',
    "gaussian_matrix": "array_like of shape (axes, k): k frequencies from a checkpoint, in turns per unit.",
    "granularity interpolation_scale": "float: Divisor of the positions.",
    "grid_size": "int or (rows, columns): Sides of the grid.",
    "gsd": "float: Ground sample distance, a factor of all frequencies.",
    "head": "int: Index of the head, from 0.",
    "head_dim": "int: Width of a head.",
    "heads": "int: Number of heads.",
    "in_dim input_dims ndim": "int: Number of axes.",
    "in_pixels": "bool: Whether positions are numbers from -1 to 1 instead of indices of cells.",
    "interleave_sin_cos": "bool: Whether the cosines of an axis directly follow its sines.",
    "layer_type": '{"full_attention", "sliding_attention"}: Kind of the layer.',
    "layout": '{"half", "interleaved"}: Layout of the pairs, as in `Rotary`.',
    "length": "int: Length of the sequence, which is the longest wavelength.",
    "linear_bands": "bool: Whether frequencies are spaced equally instead of geometrically.",
    "linear_factor": "float: Divisor of the frequencies.",
    "log_sampling logspace": "bool: Whether frequencies are spaced geometrically instead of equally.",
    "lower": "float: Shortest wavelength.",
    "masked_frequencies": "int or array_like of shape (axes, k): Turns per period of each basis function. An integer n means 0, 1, .. n - 1 for one axis.",
    "max_deg": "int: 1 plus the binary logarithm of the last frequency.",
    "max_freq": "float: First frequency, in turns with full_turns.",
    "max_freq_exp": "float: Binary logarithm of the last frequency, in turns per unit.",
    "max_freq_log2": "float, optional: Binary logarithm of the last frequency (default: num_freqs - 1).",
    "max_radius": "float: Reciprocal of the last frequency.",
    "max_res": "float: Number of pixels on a side. With in_pixels, the last frequency is pi * max_res / 2.",
    "max_resolution": "sequence of int: Number n of pixels on each axis. The last frequency of the axis is pi * n / 2.",
    "min_deg": "int: Binary logarithm of the first frequency.",
    "min_freq": "float: Last frequency, in turns with full_turns.",
    "min_freq_exp": "float: Binary logarithm of the first frequency, in turns per unit.",
    "min_period min_wavelength": "float: Shortest wavelength.",
    "min_radius": "float: Reciprocal of the first frequency.",
    "min_timescale": "float: The first frequency. For flaxformer_rotary: reciprocal of the first frequency.",
    "mrope_section rope_axes_dim": "sequence of int: Numbers of pairs of t, h and w (ernie4_5_vl: of h, w and t).",
    "mscale": "float: Number in DeepSeek's factor of attention scores, (0.1 * mscale * ln(factor) + 1)^2.",
    "ntk_factor": "float: Factor of the base.",
    "num_basis": "int: Number of frequencies, and of columns.",
    "num_pos_feats": "int: Number of columns of each axis.",
    "omega_0": "float: First frequency.",
    "part": '{"phi", "pi", "psi", "omega"}: Name of one of the four tables.',
    "partial_rotary_factor": "float: Fraction of a head to rotate.",
    "period": "float: Longest period (prophet: in days; nemos: one number, or one for each axis).",
    "period_base_list": "sequence of float: Periods that are multiplied by powers of ten.",
    "pos_frequencies": "array_like of shape (3, heads, head_dim/2): Frequencies from a checkpoint, in radians per unit.",
    "random_offset": "array_like of shape (k,): Phases of a fitted sampler, in radians.",
    "random_weights": "array_like of shape (features, k): Frequencies of a fitted sampler, in radians per unit.",
    "reverse_coord": "bool: Whether columns of x come before those of y.",
    "rope_freq_dim": "int: Number of pairs of each axis.",
    "rope_scale": "sequence of float: For each axis, the ratio of its length to its length in training.",
    "rotary_dim": "int: Number of leading values of a head to rotate.",
    "scale": "float: Factor of the positions. For x_transformers and mlx: factor of all columns.",
    "scale_down_positions": "bool: Whether columns are divided by the square root of the number of columns.",
    "seq_len": "int: Length of the sequence.",
    "sigma": "float: Frequency i is 2 pi * sigma ** (i / m).",
    "spatial_dims": "int: Number of axes, 2 or 3.",
    "spatial_interpolation_scale": "float: Divisor of the positions in space.",
    "temp_bug_fix": "bool: False for checkpoints that were trained with a precedence error in the exponents.",
    "temporal_interpolation_scale": "float: Divisor of the positions in time.",
    "theta": "float: Base of the geometric frequencies; larger values give longer wavelengths (LTX: shorter).",
    "time_factor": "float: Factor of the positions.",
    "uniform_power": "bool: Whether the axes have equal numbers of columns.",
    "upper": "float: Longest wavelength.",
    "weight weight_1": "array_like of shape (features, k): Frequencies from a checkpoint, in turns per unit of each feature.",
    "weights": "array_like of shape (k,) or (k, axes): k frequencies from a checkpoint, in turns per unit (lightglue: in radians; alphafold3: in turns per 4 units).",
}
PARAMETERS = {name: text for names, text in _TEXTS.items() for name in names.split()}
# names of parameters whose value is the number of columns
WIDTHS = frozenset((*_WIDTHS.split(), "num_basis"))
