"""Presets of the Earth: weather, remote sensing, places and dates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .._core.encoding.builders import fourier_features, join
from .._core.encoding.periods import periodic
from .._core.encoding.sinusoids import Sinusoids
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.numbers.schedule import Schedule, geometric
from ._build import TWO_PI, arranged, ascending, even, multiple, per_axis, positive, sinusoids, weights_of
from ._images import XY
from ._registry import preset

__all__ = [
    "aurora",
    "clay",
    "galileo",
    "galileo_months",
    "gencast",
    "geo_prior",
    "geoclip",
    "geoclip_positional",
    "graphcast",
    "satclip_wrap",
    "satmae_temporal",
    "space2vec_grid",
    "space2vec_theory",
]


@preset(
    source="microsoft/aurora: aurora/model/fourier.py, FourierExpansion",
    frequency="2 pi / lower * (upper / lower)^(-i / (d/2 - 1))",
    layout="sines, then cosines",
    positions="latitudes and longitudes in degrees: `.encode(x)`; levels in hPa with lower=0.01, upper=1e5; lead"
    " times in hours with lower=1/60 (2 in later versions), upper=504; times in hours since 1970 with lower=1,"
    " upper=8766; areas of patches in square kilometres with lower=0.00010814085263058073, upper=511207893.3958109; the"
    " source computes in float64",
    differs="wavelengths range from exactly lower to exactly upper; sines come first",
    example="pf.presets.aurora(4).wavelengths.round(6) -> array([1.0e-02, 7.2e+02, 1.0e-02, 7.2e+02])",
)
def aurora(d: int, *, lower: float = 0.01, upper: float = 720.0) -> Encoding:
    """Fourier expansion of Aurora."""
    low = positive(lower, "lower")
    return sinusoids(even(d, "d"), base=positive(upper, "upper") / low, shift=1, first=TWO_PI / low)


@preset(
    source="google-deepmind/graphcast: graphcast/model_utils.py, fourier_features, for NoiseEncoderConfig of denoiser.py",
    frequency="2 pi (i + 1) / base_period",
    layout="cosines, then sines",
    positions="logarithms of noise levels: `.encode(np.log(sigma))`",
    odd="2 columns for each frequency",
    differs="frequencies are integer multiples of one frequency; cosines come first",
    also="WeatherNext weathernext/utils/model_utils.py",
    example="pf.presets.gencast(2).wavelengths -> array([16.,  8., 16.,  8.])",
)
def gencast(num_frequencies: int = 32, *, base_period: float = 16.0) -> Encoding:
    """Fourier features of noise levels in GenCast."""
    n, period = count_of(num_frequencies, "num_frequencies", 1), Fraction(positive(base_period, "base_period"))
    return fourier_features(periodic([period / (i + 1) for i in range(n)]), functions=("cos", "sin"))


@preset(
    source="google-deepmind/graphcast: graphcast/data_utils.py, get_year_progress and get_day_progress",
    frequency="for the year, one turn in 365.24219 days; for the day, one turn in a day plus one turn in 360 degrees"
    " of longitude",
    layout="sine and cosine of the year, sine and cosine of the day",
    positions="(seconds since 1970 in UTC, longitude in degrees): `.encode(np.stack([seconds, longitude], -1))`; the source"
    " rounds the elapsed fractions of the year and of the day to float32, which changes sine and cosine by up to 4e-7,"
    " and also stores these fractions as variables",
    odd="always 4 columns",
    differs="periods are exact; the angle of the day is a sum over both axes, time and longitude",
    also="GenCast and WeatherNext",
    axes="2",
    example="pf.presets.graphcast().encode([43200.0, 180.0]).round(4)"
    " -> array([0.0086, 1.    , 0.    , 1.    ], dtype=float32)",
)
def graphcast() -> Encoding:
    """Encoding of the time of year and of the day in GraphCast."""
    day = 86400
    periods = periodic([day * Fraction("365.24219"), day, 360])
    # index of a period for each column and axis (time, longitude), or -1 if the column does not depend on the axis
    index = np.array([[0, -1], [0, -1], [1, 2], [1, 2]])
    return Encoding._of(Sinusoids((periods,), index, np.array([0, 0.25, 0, 0.25]), np.ones(4)))


@preset(
    source="nasaharvest/galileo: single_file_galileo.py, get_2d_sincos_pos_embed_with_resolution",
    frequency="10000^(-i/d)",
    layout="sines of x, cosines of x, sines of y, cosines of y",
    positions="(y, x): row and column of a grid cell, multiplied by the cell's side in units of 10 m: `.encode(cells *"
    " input_res * patch_size / 10)`",
    odd="ValueError unless 4 divides the width",
    differs="the columns of x come first; exponents lie between -1/4 and 0",
    axes="2",
    example="pf.presets.galileo(8).frequencies[[0, 1], 1].round(4) -> array([1.    , 0.3162])",
)
def galileo(embed_dim: int) -> Encoding:
    """Position embedding of Galileo, for positions scaled by the resolution of the image."""
    d = multiple(embed_dim, "embed_dim", 4, 2)
    n = d // 4
    return per_axis([fourier_features(geometric(n, freq_shift=n - d))] * 2, XY)


@preset(
    source="nasaharvest/galileo: single_file_galileo.py, get_month_encoding_table",
    frequency="one turn in 12 months, for all columns",
    layout="d/2 equal sines, then d/2 equal cosines",
    positions="months from 0 to 11: `.table(12)`",
    differs="all columns have the same frequency",
    also="Presto get_month_encoding_table",
    by_width=False,
    example="pf.presets.galileo_months(4).encode(3) -> array([1., 1., 0., 0.], dtype=float32)",
)
def galileo_months(embed_dim: int) -> Encoding:
    """Encoding of months in Galileo and Presto."""
    return fourier_features(periodic([12] * (even(embed_dim, "embed_dim") // 2)))


@preset(
    source="Clay-foundation/model: utils, posemb_sincos_2d_with_gsd",
    frequency="gsd * temperature^(-2i / ((d/4 - 1) d))",
    layout="sines of x, cosines of x, sines of y, cosines of y",
    positions="(y, x): row and column of a grid cell",
    odd="ValueError unless 4 divides the width",
    differs="the exponents are those of `simple_vit`, divided by d/2; if d is large, all frequencies are nearly gsd",
    also="torchgeo",
    axes="2",
    example="pf.presets.clay(32, gsd=10.0).frequencies[[0, 7], 1].round(2) -> array([10.  ,  5.62])",
)
def clay(dim: int, *, gsd: float = 1.0, temperature: float = 10000.0) -> Encoding:
    """Position embedding of Clay, scaled by the ground sample distance."""
    n = multiple(dim, "dim", 4, 2) // 4
    part = geometric(
        n, base=positive(temperature, "temperature"), freq_shift=n - (n - 1) * 2 * n, first=real(gsd, "gsd")
    )
    return join([arranged([part, part], "asf")], axes=[XY])


@preset(
    source="sustainlab-group/SatMAE: models_mae_temporal.py, get_1d_sincos_pos_embed_from_grid of year, month and hour",
    frequency="10000^(-2i/embed_dim)",
    layout="sines of the year, cosines of the year, then the same for the month, then for the hour",
    positions="(year, month, hour) as the data set counts them",
    odd="ValueError if embed_dim is odd; the encoding has 3 * embed_dim columns",
    differs="the columns are divided among three calendar numbers; the source computes in float64",
    axes="3",
    by_width=False,
    example="pf.presets.satmae_temporal(4).encode([18, 5, 11]).shape -> (12,)",
)
def satmae_temporal(embed_dim: int = 128) -> Encoding:
    """Encoding of calendar numbers in SatMAE."""
    d = even(embed_dim, "embed_dim")
    return per_axis([sinusoids(d)] * 3, range(3))


@preset(
    source="macaodha/geo_prior: geo_prior/utils.py, encode_loc_time with encode_cos_sin",
    frequency="one turn in 360 degrees of longitude, and in 180 degrees of latitude",
    layout="sines of longitude and latitude, then their cosines",
    positions="(longitude, latitude) in degrees: `.encode(lonlat)`; the source divides them by 180 and by 90 first",
    odd="always 4 columns",
    differs="each axis has one frequency, with an exact period",
    also="Sphere2Vec and TorchSpatial AodhaSpatialRelationEncoder (wrap), SINR encode_loc",
    axes="2",
    example="pf.presets.geo_prior().encode([90.0, 45.0]) -> array([1., 1., 0., 0.], dtype=float32)",
)
def geo_prior() -> Encoding:
    """Wrapped coordinates of Mac Aodha's geographical prior."""
    return arranged([periodic([360]), periodic([180])], "saf")


@preset(
    source="microsoft/satclip: satclip/positional_encoding/wrap.py, Wrap",
    frequency="one turn in 360 degrees of longitude or latitude",
    layout="cosine and sine of the longitude, cosine and sine of the latitude",
    positions="(longitude, latitude) in degrees: `.encode(lonlat)`",
    odd="always 4 columns",
    differs="both axes have the same frequency, with an exact period; cosines come first",
    axes="2",
    example="pf.presets.satclip_wrap().encode([90.0, 180.0]) -> array([ 0.,  1., -1.,  0.], dtype=float32)",
)
def satclip_wrap() -> Encoding:
    """Wrapped coordinates of SatCLIP."""
    return arranged([periodic([360])] * 2, "afs", ("cos", "sin"))


@preset(
    source="gengchenmai/space2vec: SpatialRelationEncoder.py, TheoryGridCellSpatialRelationEncoder",
    frequency="(max_radius / min_radius)^(-i / (n - 1)) / min_radius, n = frequency_num, along unit vectors at 0, 120"
    " and 240 degrees",
    layout="for each frequency: sine and cosine along each of the three vectors",
    positions="(x, y): `.encode(xy)`; the source computes in float64",
    odd="6 columns for each frequency",
    differs="positions are projected onto three directions in the plane; the last exponent is exactly -1",
    also="SatCLIP and Sphere2Vec Theory",
    axes="2",
    example="pf.presets.space2vec_theory(1, min_radius=1.0).encode([0.0, 1.0]).round(2)"
    " -> array([ 0.  ,  1.  ,  0.76,  0.65, -0.76,  0.65], dtype=float32)",
)
def space2vec_theory(frequency_num: int = 16, *, max_radius: float = 10000.0, min_radius: float = 1000.0) -> Encoding:
    """Theory encoder of Space2Vec."""
    bands = np.asarray(_radii(frequency_num, max_radius, min_radius))
    directions = np.array([[1.0, 0.0], [-0.5, math.sqrt(3) / 2], [-0.5, -math.sqrt(3) / 2]])
    return fourier_features((bands[:, np.newaxis, np.newaxis] * directions).reshape(-1, 2), layout="interleaved")


@preset(
    source="gengchenmai/space2vec: SpatialRelationEncoder.py, GridCellSpatialRelationEncoder",
    frequency="(max_radius / min_radius)^(-i / (n - 1)) / min_radius, n = frequency_num",
    layout="alternating sines and cosines of x, then of y",
    positions="(x, y): `.encode(xy)`; the source computes in float64",
    odd="4 columns for each frequency",
    differs="the last exponent is exactly -1",
    also="SatCLIP and Sphere2Vec GridCell",
    axes="2",
    example="pf.presets.space2vec_grid(1, min_radius=1.0).encode([0.0, 1.0]).round(2)"
    " -> array([0.  , 1.  , 0.84, 0.54], dtype=float32)",
)
def space2vec_grid(frequency_num: int = 16, *, max_radius: float = 10000.0, min_radius: float = 10.0) -> Encoding:
    """Grid cell encoder of Space2Vec."""
    return arranged([_radii(frequency_num, max_radius, min_radius)] * 2, "afs")


def _radii(frequency_num: int, max_radius: float, min_radius: float) -> Schedule:
    low = positive(min_radius, "min_radius")
    ratio = positive(max_radius, "max_radius") / low
    return geometric(count_of(frequency_num, "frequency_num", 1), base=ratio, freq_shift=1, first=1 / low)


@preset(
    source="jmclong/random-fourier-features-pytorch: rff/functional.py, positional_encoding",
    frequency="2 pi * sigma^(i/m)",
    layout="for each axis: cosines, then sines",
    positions="coordinates: `.encode(x)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; cosines come first",
    also="GeoCLIP positional_encoding",
    axes="input_dims",
    example="pf.presets.geoclip_positional(4.0, 2, input_dims=1).wavelengths -> array([1. , 0.5, 1. , 0.5])",
)
def geoclip_positional(sigma: float, m: int, *, input_dims: int = 2) -> Encoding:
    """Positional encoding of random-fourier-features-pytorch, which GeoCLIP uses."""
    n = count_of(m, "m", 1)
    bands = ascending(n, positive(sigma, "sigma"), per=n, first=TWO_PI)
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "asf", ("cos", "sin"))


@preset(
    source="VicenteVivan/geo-clip: geoclip/model/rff, gaussian_encoding",
    frequency="2 pi weights[i]; weights has one row per frequency and one column per axis",
    layout="cosines, then sines",
    positions="projected longitude and latitude: `.encode(x)`",
    odd="2 columns for each row of weights",
    differs="frequencies are random vectors from a checkpoint; cosines come first",
    also="random-fourier-features-pytorch gaussian_encoding",
    axes="any number",
    example="pf.presets.geoclip([[0.25, 0.5]]).encode([1.0, 0.5]).round(6) -> array([-1.,  0.], dtype=float32)",
)
def geoclip(weights: npt.ArrayLike) -> Encoding:
    """Random Fourier features of GeoCLIP."""
    return fourier_features(TWO_PI * weights_of(weights, "weights"), functions=("cos", "sin"))
