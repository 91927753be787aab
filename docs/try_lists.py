"""Type words into the search fields of presets and RoPE models in a browser, and check the entries that the pages show.

    python docs/try_lists.py HTML

HTML is the directory that sphinx-build wrote. The program needs Chromium, but no network.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from screenshots import Handler, chromium, printed, serve

import posenc_fast as pf

# types words like a user, and reads the visible entries
DRIVER = """<!doctype html><title>driver</title><iframe style="width:420px;height:900px"></iframe><pre></pre><script>
const frame = document.querySelector("iframe"), words = WORDS, seen = [];
frame.onload = () => {
  const page = frame.contentDocument, field = page.getElementById("list-search");
  const isSeen = (e) => e.getClientRects().length > 0;
  for (const word of words) {
    field.value = word;
    field.dispatchEvent(new Event("input", {bubbles: true}));
    const entries = [...page.querySelectorAll("section.entry")].filter(isSeen);
    seen.push({
      titles: entries.map((e) => e.querySelector("h3").firstChild.textContent),
      codes: entries.flatMap((e) => [...e.querySelectorAll("p code")].map((code) => code.textContent)),
      count: page.getElementById("list-count").textContent,
      none: isSeen(page.querySelector(".list-none")),
      elsewhere: [...page.querySelectorAll(".list-none")].flatMap(
        (e) => [...e.previousElementSibling.querySelectorAll("li")].map((item) => item.textContent)),
      top: field.getBoundingClientRect().top, width: page.documentElement.scrollWidth,
    });
  }
  document.querySelector("pre").textContent = JSON.stringify(seen);
};
frame.src = "/PAGE.html";
</script>"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("html", type=Path)
    arguments = parser.parse_args()
    asked: dict[str, list[str]] = {}

    class Driver(Handler):
        def page(self) -> str | None:
            name = self.path.removeprefix("/driver-")
            if name not in asked:
                return None
            return DRIVER.replace("PAGE", name).replace("WORDS", json.dumps(asked[name]))

    browser, address = chromium(), serve(arguments.html, Driver)

    def seen_on(page: str, words: list[str]) -> dict[str, dict[str, Any]]:
        """Return {word: what the page shows after the word is typed}, also for the empty word."""
        asked[page] = ["", *words, ""]
        first, *each, last = printed(browser, f"{address}/driver-{page}")
        assert first == last, "after all words are deleted, the list differs from the first one"
        every = len(first["titles"])
        assert first["count"] == f"{every} of {every} entries"
        for word, one in zip(words, each, strict=True):
            assert one["count"] == f"{len(one['titles'])} of {every} entries", (word, one)
            assert one["none"] == (not one["titles"]), (word, one)
            assert one["width"] <= 420, (word, one["width"])
        return dict(zip(["", *words], [first, *each], strict=True))

    nothing = "xyzzy"
    words = ["sdxl", "SDXL", "stable diffusion", "weather", "molecules", "tabular", "whisper", "gpt-j", nothing]
    presets = seen_on("presets", words)
    # without a word, the page shows all presets, and entries for encodings that are not presets
    assert set(presets[""]["titles"]) > set(pf.presets.names())
    for word in words:
        found = set(pf.presets.search(word))
        assert found <= set(presets[word]["titles"]), (word, found - set(presets[word]["titles"]))
        assert bool(found) == (word != nothing), word
    words = ["llama", "phi-3", "qwen3 moe", "gemma4_text", "gpt-2", "sections", nothing]
    models = seen_on("rotary-models", words)
    assert 0 < len(models["sections"]["titles"]) < len(models[""]["titles"])
    for word in ("llama", "phi-3", "gemma4_text"):
        assert word.replace("-", "") in models[word]["codes"], (word, models[word])
    for page in (presets, models):
        assert page[nothing]["none"], page[nothing]
        assert not page[nothing]["elsewhere"], page[nothing]
    print(f"{len(presets) + len(models)} searches show what they should")


if __name__ == "__main__":
    main()
