"""Move the sliders of the page Play in a browser, and compare its numbers with those of posenc_fast.

    python docs/try_play.py HTML

HTML is the directory that sphinx-build wrote. The program needs Chromium, but no network.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from screenshots import Handler, chromium, printed, serve

import posenc_fast as pf

# tolerance for numbers, because Chromium computes powers, angles (below 256), sines and cosines in doubles
TOLERANCE = 1e-11
# page that moves the sliders like a user, one after another, and reads the page Play after each step
DRIVER = """<!doctype html><title>driver</title><iframe style="width:1000px;height:900px"></iframe><pre></pre><script>
const frame = document.querySelector("iframe"), steps = STEPS, seen = [];
frame.onload = () => {
  const page = frame.contentDocument, form = page.getElementById("play-form");
  const numbers = (id) => [...page.querySelectorAll(`#${id} td`)].map((cell) => Number(cell.dataset.value));
  const points = (id) => page.querySelector(`#${id} polyline`).getAttribute("points").split(" ").map(
    (point) => point.split(",").map(Number));
  const read = () => {
    const canvas = page.getElementById("play-heatmap"), outputs = {}, middles = [];
    const across = canvas.width / form.width.value, down = canvas.height / form.rows.value;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let y = down >> 1; y < canvas.height; y += down) {
      for (let x = across >> 1; x < canvas.width; x += across) {
        const at = 4 * (y * canvas.width + x);
        middles.push(...pixels.slice(at, at + 3));
      }
    }
    const call = page.getElementById("play-call").textContent;
    for (const output of page.querySelectorAll("output")) outputs[output.name] = Number(output.dataset.value);
    return {rows: numbers("play-numbers"), outputs, similarity: points("play-similarity"), waves: points("play-waves"),
      cells: [across, down], pixels: middles, address: frame.contentWindow.location.search, call,
      clocks: page.querySelectorAll("#play-clocks circle").length};
  };
  seen.push(read());
  for (const step of steps) {
    for (const [name, value] of Object.entries(step)) {
      form[name].value = value;
      form[name].dispatchEvent(new Event("input", {bubbles: true}));
    }
    seen.push(read());
  }
  document.querySelector("pre").textContent = JSON.stringify(seen);
};
frame.src = "/play.html" + location.search;
</script>"""


def check(seen: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that the numbers, lines and colours of the page are right. expected: settings of the sliders."""
    width, rows, position, key = (expected[name] for name in ("width", "rows", "position", "key"))
    base = float(f"{10 ** expected['base']:.1e}")
    outputs = seen["outputs"]
    assert [outputs[f"{name}-value"] for name in ("width", "rows", "position", "key", "pair")] == [
        width,
        rows,
        position,
        key,
        expected["pair"],
    ], (outputs, expected)
    assert outputs["base-value"] == base
    encoding = pf.sinusoidal(width, base=base, layout=expected["layout"])
    pairs = pf.sinusoidal(width, base=base)
    table = encoding.table(rows, dtype=np.float64)
    called = eval(seen["call"], {"posenc_fast": pf})
    np.testing.assert_array_equal(called, encoding.table(rows), strict=True)

    # the page shows rows of (pair, wavelength, angle, sine, cosine)
    shown = np.reshape(seen["rows"], (-1, 5))
    count = min(8, width // 2)
    row = pairs.encode(position, dtype=np.float64).reshape(-1, 2)[:count]
    frequencies = pairs.frequencies[::2][:count]
    columns = [np.arange(count), 2 * np.pi / frequencies, position * frequencies, row[:, 0], row[:, 1]]
    np.testing.assert_allclose(shown, np.stack(columns, axis=1), rtol=TOLERANCE, atol=TOLERANCE)

    # the line shows dot products; a value of 1 is 90 units high
    similarity = encoding.similarity(np.arange(rows) - position) / (width / 2)
    np.testing.assert_allclose(outputs["similarity"], similarity[key], atol=TOLERANCE)
    across = np.linspace(30, 590, rows)
    np.testing.assert_allclose(seen["similarity"], np.stack([across, 100 - 90 * similarity], axis=1), atol=0.006)
    frequency = pairs.frequencies[2 * expected["pair"]]
    np.testing.assert_allclose(outputs["wavelength"], 2 * np.pi / frequency, rtol=TOLERANCE)
    sine = pairs.table(rows, dtype=np.float64)[:, 2 * expected["pair"]]
    np.testing.assert_allclose(seen["waves"], np.stack([across, 100 - 90 * sine], axis=1), atol=0.006)
    rotary = pf.Rotary(width, base=base)
    turned = rotary.apply(np.ones((2, width)), positions=np.array([position, key])).reshape(2, 2, -1)
    product = (turned[0] * turned[1]).sum(axis=0)[expected["pair"]] / 2
    np.testing.assert_allclose(outputs["product"], product, atol=TOLERANCE)
    assert outputs["distance"] == position - key

    # compare the colour of each value, except in the row that the page marks
    assert all(each == int(each) >= 1 for each in seen["cells"]), (
        "the width or height of a cell is not a whole number of pixels"
    )
    pixels = np.reshape(seen["pixels"], (rows, width, 3))
    ends = np.where(table[..., np.newaxis] < 0, [33, 102, 172], [178, 24, 43])
    colours = 247 + np.abs(table)[..., np.newaxis] * (ends - 247)
    others = np.arange(rows) != position
    assert np.abs(pixels - colours)[others].max() <= 1
    assert seen["clocks"] == min(12, width // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("html", type=Path)
    arguments = parser.parse_args()
    draw = random.Random(1)
    start: dict[str, Any] = {
        "width": 64, "base": 4, "rows": 64, "layout": "interleaved", "position": 10, "key": 4, "pair": 3
    }  # fmt: skip
    steps: list[dict[str, Any]] = [
        {"position": 63},
        # with fewer rows and columns, the ranges of the sliders for positions and pairs also shrink
        {"rows": 8, "width": 4},
        {"layout": "concatenated", "width": 128, "rows": 256, "position": 255, "key": 0, "pair": 63},
        {"base": 1},
        {"base": 6, "pair": 0},
    ]
    for _ in range(5):
        width, rows = 2 * draw.randint(2, 64), draw.randint(8, 256)
        places = {name: draw.randrange(rows) for name in ("position", "key")}
        layout = draw.choice(["interleaved", "concatenated"])
        base = draw.randint(10, 60) / 10
        steps.append(
            {"width": width, "rows": rows, "layout": layout, "base": base, "pair": draw.randrange(width // 2), **places}
        )

    class Driver(Handler):
        def page(self) -> str | None:
            return DRIVER.replace("STEPS", json.dumps(steps)) if self.path.startswith("/driver") else None

    browser, address = chromium(), serve(arguments.html, Driver)

    def seen_at(query: str) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = printed(browser, f"{address}/driver{query}")
        return seen

    now, seen = start, seen_at("")
    check(seen[0], now)
    for step, page in zip(steps, seen[1:], strict=True):
        now = {**now, **step}
        for name, most in (("position", now["rows"] - 1), ("key", now["rows"] - 1), ("pair", now["width"] // 2 - 1)):
            now[name] = min(now[name], most)
        check(page, now)
    # opening the address of the last step shows the same page
    assert seen[-1]["address"] == f"?{urlencode({name: now[name] for name in start})}", (seen[-1]["address"], now)
    check(seen_at(seen[-1]["address"])[0], now)
    print(f"{len(seen) + 1} settings of the page are right")


if __name__ == "__main__":
    main()
