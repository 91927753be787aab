"""The recipes of docs/howto-features.md against the programs of their sources, written out anew."""

from __future__ import annotations

import re
import runpy

import numpy as np
import pytest

from support.checkout import checkout


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """The names that the page's program defines."""
    text = (checkout() / "docs" / "howto-features.md").read_text("utf-8")
    program = tmp_path_factory.mktemp("page") / "features.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)), "utf-8")
    return runpy.run_path(str(program))


def angles(lonlat, n, max_radius, min_radius):
    """Of longitude and latitude at each scale, (rows, n), as Sphere2Vec has them."""
    step = np.log(max_radius / min_radius) / (n - 1)
    frequencies = 1 / (min_radius * np.exp(np.arange(n) * step))
    return [x[:, None] * frequencies * np.pi / 180 for x in lonlat.T]


def sphere_c(lon, lat, *_):
    return [np.sin(lat), np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon)]


def sphere_c_plus(lon, lat, *_):
    return [np.sin(lat), np.cos(lat), np.sin(lon), np.cos(lon), np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon)]


def sphere_m(lon, lat, one_lon, one_lat):
    return [
        np.sin(lat),
        np.cos(lat) * np.cos(one_lon),
        np.cos(one_lat) * np.cos(lon),
        np.cos(lat) * np.sin(one_lon),
        np.cos(one_lat) * np.sin(lon),
    ]


@pytest.fixture
def places(rng):
    return np.stack([rng.uniform(-180, 180, 40), rng.uniform(-90, 90, 40)], axis=1)


SCALES = {"n": 5, "max_radius": 360.0, "min_radius": 0.01}


@pytest.mark.parametrize("formula", [sphere_c, sphere_c_plus, sphere_m], ids=lambda f: f.__name__)
def test_products_of_sphere2vec(formula, recipes, places):
    ones = np.deg2rad(places).T[..., None]
    expected = np.stack(formula(*angles(places, **SCALES), *ones), axis=-1).reshape(40, -1)
    made = recipes[formula.__name__](places, **SCALES)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-7)


def test_double_fourier_sphere(recipes, places):
    lon, lat = angles(places, **SCALES)
    by_lon, by_lat = (np.concatenate([np.sin(x), np.cos(x)], axis=1) for x in (lon, lat))
    products = np.einsum("rj,rk->rjk", by_lon, by_lat).reshape(40, -1)
    singles = np.stack([np.sin(lat), np.cos(lat), np.sin(lon), np.cos(lon)], axis=-1).reshape(40, -1)
    made = recipes["sphere_dfs"](places, **SCALES)
    np.testing.assert_allclose(made, np.hstack([products, singles]), rtol=0, atol=1e-7)


def test_points_of_the_unit_sphere(recipes, places):
    lon, lat = np.deg2rad(places).T
    expected = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    np.testing.assert_allclose(recipes["xyz"](places), expected, rtol=0, atol=1e-7)
    # of geo_prior, whose latitudes are divided by 90 as its longitudes by 180
    doubled = recipes["xyz"](places * [1, 2])
    lon, lat = np.pi * (places / [180, 90]).T
    expected = np.stack([np.cos(lon) * np.cos(lat), np.sin(lon) * np.cos(lat), np.sin(lat)], axis=1)
    np.testing.assert_allclose(doubled, expected, rtol=0, atol=1e-7)
