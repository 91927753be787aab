// The page Play: pictures of a sinusoidal position encoding, drawn again at each move of a slider. No library, no network.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("play-form");
  if (!form) return;
  const SVG = "http://www.w3.org/2000/svg";
  // as in the pictures of posenc_fast.plot: blue below zero, red above
  const COLD = [33, 102, 172], PALE = [247, 247, 247], WARM = [178, 24, 43];
  const CLOCKS = 12, ROWS = 8;

  // ---- the encoding: frequency of pair i is base ** (-2 i / width)

  const frequency = (s, i) => s.base ** (-2 * i / s.width);
  const row = (s, position) => {
    const values = new Float64Array(s.width), pairs = s.width / 2;
    for (let i = 0; i < pairs; i++) {
      const angle = position * frequency(s, i), interleaved = s.layout === "interleaved";
      values[interleaved ? 2 * i : i] = Math.sin(angle);
      values[interleaved ? 2 * i + 1 : pairs + i] = Math.cos(angle);
    }
    return values;
  };
  // the dot product of two rows, over that of a row with itself
  const similarity = (s, distance) => {
    let sum = 0;
    for (let i = 0; i < s.width / 2; i++) sum += Math.cos(distance * frequency(s, i));
    return sum / (s.width / 2);
  };

  // ---- the values of the sliders

  const settings = () => {
    const s = {layout: form.layout.value};
    for (const name of ["width", "rows", "position", "key", "pair"]) s[name] = Number(form[name].value);
    // two digits, so that the base is short in the call
    s.base = Number((10 ** Number(form.base.value)).toPrecision(2));
    return s;
  };
  const limit = () => {
    for (const name of ["position", "key"]) form[name].max = form.rows.value - 1;
    form.pair.max = form.width.value / 2 - 1;
  };

  // ---- the same encoding in Python

  const call = (s) => `posenc_fast.positional_encoding(${s.rows}, ${s.width}, base=${s.base}, layout="${s.layout}")`;
  const code = document.getElementById("play-call"), copied = document.getElementById("play-copied");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied.textContent = "Copied.";
    } catch {
      // browsers without access to the clipboard
      getSelection().selectAllChildren(code);
      copied.textContent = "Selected. Press Ctrl+C to copy.";
    }
  };

  // ---- drawing

  const short = (x) => (Math.abs(x) >= 1e5 ? x.toExponential(2) : String(Number(x.toPrecision(4))));
  const write = (name, value, text) => {
    const output = form.querySelector(`output[name="${name}"]`);
    output.textContent = text ?? short(value);
    output.dataset.value = value;
  };
  const shape = (parent, kind, attributes, text) => {
    const element = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
  };
  const cleared = (id, label) => {
    const picture = document.getElementById(id);
    picture.replaceChildren();
    picture.setAttribute("aria-label", label);
    return picture;
  };
  // values at 0, 1, .. as a line, between -1 at the bottom and 1 at the top
  const line = (picture, values, kind) => {
    const step = 560 / Math.max(values.length - 1, 1);
    const points = values.map((value, i) => `${(30 + i * step).toFixed(2)},${(100 - 90 * value).toFixed(2)}`);
    shape(picture, "polyline", {points: points.join(" "), class: kind});
  };
  // down: what the vertical axis shows
  const axes = (picture, s, down) => {
    for (const value of [-1, 0, 1]) {
      shape(picture, "line", {x1: 30, x2: 590, y1: 100 - 90 * value, y2: 100 - 90 * value, class: "axis"});
      shape(picture, "text", {x: 24, y: 104 - 90 * value, "text-anchor": "end"}, value);
    }
    const x = 30 + 560 * s.position / Math.max(s.rows - 1, 1);
    shape(picture, "line", {x1: x, x2: x, y1: 6, y2: 194, class: "here"});
    shape(picture, "text", {x: 30, y: 212, "text-anchor": "middle"}, 0);
    shape(picture, "text", {x: 590, y: 212, "text-anchor": "end"}, s.rows - 1);
    shape(picture, "text", {x: 310, y: 232, "text-anchor": "middle"}, "position");
    shape(picture, "text", {x: -100, y: -8, "text-anchor": "middle", transform: "rotate(-90)"}, down);
  };
  const hand = (picture, x, y, radius, angle, kind) =>
    shape(picture, "line", {x1: x, y1: y, x2: x + radius * Math.cos(angle), y2: y - radius * Math.sin(angle), class: kind});

  const heatmap = (s) => {
    const canvas = document.getElementById("play-heatmap"), table = document.createElement("canvas");
    [table.width, table.height] = [s.width, s.rows];
    const image = new ImageData(s.width, s.rows);
    for (let p = 0; p < s.rows; p++) {
      row(s, p).forEach((value, c) => {
        const end = value < 0 ? COLD : WARM, part = Math.abs(value), at = 4 * (p * s.width + c);
        for (let k = 0; k < 3; k++) image.data[at + k] = PALE[k] + part * (end[k] - PALE[k]);
        image.data[at + 3] = 255;
      });
    }
    table.getContext("2d").putImageData(image, 0, 0);
    // whole pixels for each value, so that none is a mixture of two
    const across = Math.max(1, Math.floor(1024 / s.width)), down = Math.max(1, Math.floor(768 / s.rows));
    [canvas.width, canvas.height] = [s.width * across, s.rows * down];
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(table, 0, 0, canvas.width, canvas.height);
    context.strokeStyle = "black";
    context.lineWidth = 2;
    context.strokeRect(1, s.position * down + 1, canvas.width - 2, Math.max(down - 2, 1));
    canvas.setAttribute("aria-label", `Table of ${s.rows} positions and ${s.width} columns, ${s.layout}`);
  };

  const draw = () => {
    limit();
    const s = settings(), positions = Array.from({length: s.rows}, (_, p) => p), f = frequency(s, s.pair);
    for (const name of ["width", "base", "rows", "position", "key", "pair"]) write(`${name}-value`, s[name]);
    heatmap(s);
    code.textContent = call(s);
    copied.textContent = "";

    const waves = cleared("play-waves", `Sine and cosine of pair ${s.pair} at positions 0 to ${s.rows - 1}`);
    axes(waves, s, "value");
    line(waves, positions.map((p) => Math.sin(p * f)), "first");
    line(waves, positions.map((p) => Math.cos(p * f)), "second");
    write("wavelength", 2 * Math.PI / f);

    const count = Math.min(CLOCKS, s.width / 2);
    const clocks = cleared("play-clocks", `Clocks of pairs 0 to ${count - 1} at position ${s.position}`);
    for (let i = 0; i < count; i++) {
      const x = 50 + 100 * (i % 6), y = 40 + 100 * Math.floor(i / 6);
      shape(clocks, "circle", {cx: x, cy: y, r: 34, class: i === s.pair ? "dial chosen" : "dial"});
      // clockwise from the top
      hand(clocks, x, y, 30, Math.PI / 2 - s.position * frequency(s, i), "first");
      shape(clocks, "text", {x, y: y + 52, "text-anchor": "middle"}, `pair ${i}`);
    }

    const near = cleared("play-similarity", `Dot product of the row of position ${s.position} with all rows`);
    axes(near, s, "dot product");
    line(near, positions.map((p) => similarity(s, p - s.position)), "first");
    write("similarity", similarity(s, s.key - s.position));

    const rotary = cleared("play-rotary", `Pair ${s.pair} of a query and of a key, rotated`);
    shape(rotary, "circle", {cx: 300, cy: 120, r: 110, class: "dial"});
    shape(rotary, "line", {x1: 180, x2: 420, y1: 120, y2: 120, class: "axis"});
    shape(rotary, "line", {x1: 300, x2: 300, y1: 5, y2: 235, class: "axis"});
    shape(rotary, "text", {x: 424, y: 125}, "first value");
    shape(rotary, "text", {x: 300, y: -4, "text-anchor": "middle"}, "second value");
    hand(rotary, 300, 120, 105, s.position * f, "first");
    hand(rotary, 300, 120, 105, s.key * f, "second");
    write("product", Math.cos((s.position - s.key) * f));
    write("distance", s.position - s.key);

    const rows = Array.from({length: Math.min(ROWS, s.width / 2)}, (_, i) => {
      const angle = s.position * frequency(s, i), tr = document.createElement("tr");
      for (const value of [i, 2 * Math.PI / frequency(s, i), angle, Math.sin(angle), Math.cos(angle)]) {
        const cell = tr.insertCell();
        cell.textContent = short(value);
        cell.dataset.value = value;
      }
      return tr;
    });
    document.getElementById("play-numbers").replaceChildren(...rows);
    history.replaceState(null, "", `?${new URLSearchParams(new FormData(form))}`);
  };

  // values in the address; the limits of some sliders depend on others
  const query = new URLSearchParams(location.search);
  for (const name of ["width", "base", "rows", "layout", "position", "key", "pair"]) {
    limit();
    if (query.has(name)) form[name].value = query.get(name);
  }
  if (!form.layout.value) form.layout.value = "interleaved";
  form.addEventListener("input", draw);
  document.getElementById("play-copy").addEventListener("click", copy);
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
});
