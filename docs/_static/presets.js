// Search in the page of presets: sections stay whose text has every word.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("preset-search");
  if (!field) return;
  const presets = [...document.querySelectorAll("article section section section")];
  const families = [...new Set(presets.map((preset) => preset.parentElement))];
  const texts = presets.map((preset) => {
    preset.classList.add("preset");
    const family = preset.parentElement.querySelector("h2").textContent;
    return `${preset.textContent} ${family}`.toLowerCase();
  });
  // what stands between the field and the presets only hides what was found
  const text = [...families[0].parentElement.children].filter(
    (e) => !families.includes(e) && e.tagName !== "H1" && !e.contains(field));
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const e of text) e.classList.toggle("hidden", words.length > 0);
    let found = 0;
    presets.forEach((preset, i) => {
      const shown = words.every((word) => texts[i].includes(word));
      preset.classList.toggle("hidden", !shown);
      found += shown;
    });
    for (const family of families) {
      family.classList.toggle("hidden", !family.querySelector("section.preset:not(.hidden)"));
    }
    document.getElementById("preset-count").textContent = `${found} of ${presets.length}`;
  };
  field.addEventListener("input", search);
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  search();
});
