// Search in the lists of presets and of rotary models. An entry stays if it has every word, in its own text or in the
// heading and the paragraphs of its family.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("list-search");
  if (!field) return;
  const count = document.getElementById("list-count"), none = document.querySelector(".list-none");
  const entries = [...document.querySelectorAll("article section section section")];
  const families = [...new Set(entries.map((entry) => entry.parentElement))];
  // names that another page has, and what to say of each group of them
  const others = JSON.parse(document.getElementById("list-elsewhere").textContent);
  const elsewhere = document.createElement("ul");
  none.before(elsewhere);
  // GPT-2, gpt2 and gpt_2 are the same
  const squeezed = (text) => text.replace(/[-_.]/g, "");
  const has = (text, word) => text.raw.includes(word) || (/[a-z]/.test(word) && text.squeezed.includes(squeezed(word)));
  const searchable = (text) => ({ raw: text.toLowerCase(), squeezed: squeezed(text.toLowerCase()) });
  // the paragraphs of a single family would match in all entries
  const said = families.length > 1 ? ":scope > h2, :scope > p" : ":scope > h2";
  const texts = entries.map((entry) => {
    entry.classList.add("entry");
    const family = [...entry.parentElement.querySelectorAll(said)].map((e) => e.textContent);
    return searchable([entry.textContent, ...family].join(" "));
  });
  // what stands beside the families only hides what was found
  const text = [...families[0].parentElement.children].filter(
    (e) => !families.includes(e) && !["H1", "UL"].includes(e.tagName) && !e.contains(field) && e !== none
  ).concat([...families[0].parentElement.querySelectorAll(":scope > ul")].filter((e) => e !== elsewhere));
  const links = new Map([...document.querySelectorAll(".bd-sidebar-secondary a[href^='#']")].map(
    (link) => [link.getAttribute("href").slice(1), link.parentElement]));
  const show = (e, shown) => {
    e.classList.toggle("hidden", !shown);
    links.get(e.id)?.classList.toggle("hidden", !shown);
  };
  // in a long entry the names that were looked for are marked
  const codes = entries.flatMap((entry) => [...entry.querySelectorAll("p code")]).map(
    (code) => [code, squeezed(code.textContent.toLowerCase())]);
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const e of text) show(e, !words.length);
    let found = 0;
    entries.forEach((entry, i) => {
      const shown = words.every((word) => has(texts[i], word));
      show(entry, shown);
      found += shown;
    });
    for (const family of families) show(family, family.querySelector("section.entry:not(.hidden)"));
    // of several words the first is the name: "phi-3 mini"
    const first = squeezed(words[0] ?? "");
    elsewhere.replaceChildren(...others.flatMap(([before, page, names, after]) => {
      const same = names.filter((name) => first.length > 2 && squeezed(name).startsWith(first));
      if (!same.length) return [];
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = `${page}?q=${encodeURIComponent(same[0])}`;
      link.textContent = same.slice(0, 8).join(", ") + (same.length > 8 ? ", …" : "");
      item.append(before, link, after);
      return [item];
    }));
    none.classList.toggle("hidden", found > 0);
    for (const [code, name] of codes) {
      code.classList.toggle("match", words.some((word) => name.includes(squeezed(word))));
    }
    count.textContent = `${found} of ${entries.length} entries`;
  };
  field.addEventListener("input", search);
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  search();
});
