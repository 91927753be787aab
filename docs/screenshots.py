"""Take pictures of the built pages in a browser at two widths, and check that each page fits at both widths.

    python docs/screenshots.py HTML [--out DIR] [--pages index presets ..]

HTML is the directory that sphinx-build wrote. Pictures go to DIR. Without ``--out``, the program only checks the pages.
A page may have a query: ``presets?q=whisper``. The program needs Chromium, but no network.
"""

from __future__ import annotations

import argparse
import html
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

WIDTHS = (1280, 420)
MAIN = ["index", "presets", "coming-from", "why", "accuracy", "speed", "guide", "api", "gallery/plot_7_classics"]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--virtual-time-budget=8000",
]
# show the page in a frame, because the window of a browser has a minimum width, and a frame has none
FRAME = """<!doctype html><title>frame</title><body style="margin:0"><iframe style="border:0"></iframe><pre></pre><script>
const asked = new URLSearchParams(location.search), width = +asked.get("width");
const frame = document.querySelector("iframe"), result = document.querySelector("pre");
frame.style.width = width + "px"; frame.style.height = asked.get("height") + "px";
frame.onload = () => {
  const page = frame.contentDocument;
  page.documentElement.dataset.theme = asked.get("theme");
  const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  // on wide pages, a list of pages is to the left of the text
  const list = page.querySelector(".bd-sidebar-primary");
  const left = list?.checkVisibility({visibilityProperty: true}) ? list.getBoundingClientRect().right : 0;
  const wide = [...page.querySelectorAll("main article *")].filter((e) => {
    const place = e.getBoundingClientRect();
    return place.width && (place.right > width + 1 || place.left < left - 1) && !scrolls(e.parentElement);
  });
  result.hidden = asked.has("picture");
  result.textContent = "WIDTH " + page.documentElement.scrollWidth + " "
    + wide.slice(0, 5).map((e) => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 60)).join(" | ");
};
const [name, query] = asked.get("page").split("?");
frame.src = "/" + name + ".html" + (query ? "?" + query : "");
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def page(self) -> str | None:
        """Return the HTML of the page that this server adds, or None for paths of files."""
        return FRAME if self.path.startswith("/frame?") else None

    def do_GET(self) -> None:
        page = self.page()
        if page is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *args: object) -> None:
        """Do nothing, so that the server does not print a line for each file."""


def chromium() -> str:
    """Return the path of Chromium, or end the program if it is not installed."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("install Chromium, as chromium, chromium-browser or google-chrome on PATH")
    return browser


def serve(folder: Path, handler: type[http.server.SimpleHTTPRequestHandler]) -> str:
    """Serve the files of a folder until the program ends, and return the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def browse(browser: str, address: str, *options: str) -> str:
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", *options, address]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def printed(browser: str, address: str) -> Any:
    """Open a page in the browser, and return the JSON that the page writes into its `pre`."""
    dom = browse(browser, address, "--dump-dom")
    found = re.search(r"<pre>(.+?)</pre>", dom, re.DOTALL)
    assert found, dom[:2000]
    return json.loads(html.unescape(found[1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("html", type=Path)
    parser.add_argument("--out", type=Path, help="directory for pictures")
    parser.add_argument("--pages", nargs="+", default=MAIN, help="pages to draw (default: the main pages)")
    parser.add_argument("--height", type=int, default=1800)
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--check", nargs="*", help="pages to measure (default: all)")
    arguments = parser.parse_args()
    browser = chromium()
    base = f"{serve(arguments.html, Handler)}/frame?height={arguments.height}&theme={arguments.theme}"
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for page in arguments.pages:
            for width in WIDTHS:
                name = arguments.out / f"{re.sub(r'[/?=]', '-', page)}-{width}.png"
                size = f"--window-size={max(width, 500)},{arguments.height}"
                address = f"{base}&picture&width={width}&page={quote(page)}"
                browse(browser, address, size, f"--screenshot={name}")
                print(f"wrote {name}", flush=True)
    every = sorted(str(path.relative_to(arguments.html).with_suffix("")) for path in arguments.html.rglob("*.html"))
    # leave out the API pages of presets, because they look like the other API pages
    every = [page for page in every if not page.startswith(("_", "generated/posenc_fast.presets."))]
    wrong = 0
    for page in every if arguments.check is None else arguments.check:
        for width in WIDTHS:
            size = f"--window-size={max(width, 500)},{arguments.height}"
            dom = browse(browser, f"{base}&width={width}&page={quote(page)}", size, "--dump-dom")
            found = re.search(r"WIDTH (\d+) ([^<]*)", dom)
            if found is None or int(found[1]) > width or found[2].strip():
                print(f"{page} does not fit into {width} pixels: {found and found[0]}", flush=True)
                wrong += 1
    print(f"{wrong} times a page does not fit")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
