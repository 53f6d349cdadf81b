// The page "Data".
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const number = (value) => (value === null || value === undefined ? "" : typeof value !== "number" ? String(value) : Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4));
  // Columns that would be empty are left out: lowest to spread are of continuous attributes.
  const COLUMNS = [
    ["Kind", (one) => one.kind],
    ["Unit", (one) => one.unit || ""],
    ["Training images", (one, images) => (one.kind === "binary" ? share(one.counts["1"] || 0, images) : Object.entries(one.counts || {}).map(([value, count]) => `${value}: ${count.toLocaleString("en")}`).join(", "))],
    ...[["Lowest", "lowest"], ["Highest", "highest"], ["Mean", "mean"], ["Spread (s.d.)", "std"]].map(([title, key]) => [title, (one) => (one.kind === "continuous" ? number(one[key]) : ""), "number"]),
  ];
  const share = (count, images) => cfgen.element("span", { class: "share" }, cfgen.element("meter", { min: 0, max: images, value: count, "aria-hidden": "true" }), `${count.toLocaleString("en")} yes (${((100 * count) / images).toFixed(0)} %)`);
  const showAttributes = (attributes, images) => {
    const shown = COLUMNS.filter(([, cell]) => attributes.some((one) => cell(one, images) !== ""));
    const style = (kind) => (kind ? { class: kind } : {});
    at("attribute-names").replaceChildren(cfgen.element("th", { scope: "col" }, "Attribute"), ...shown.map(([title, , kind]) => cfgen.element("th", { scope: "col", ...style(kind) }, title)));
    at("attributes").replaceChildren(...attributes.map((one) => cfgen.element("tr", {}, cfgen.element("th", { scope: "row" }, cfgen.title(one.attribute)), ...shown.map(([, cell, kind]) => cfgen.element("td", style(kind), cell(one, images))))));
  };
  const openModel = async (name) => {
    at("found").hidden = true;
    try {
      const found = await cfgen.ask(`/api/data?model=${encodeURIComponent(name)}`, { waiting: (text) => { at("status").textContent = text; } });
      if (at("model").value !== name) return;
      cfgen.tell(null);
      at("about").textContent = found.about;
      const names = { train: "training images", val: "validation images", test: "test images" };
      at("splits").replaceChildren(...Object.entries(found.splits).map(([split, size]) => cfgen.element("div", {}, cfgen.element("dt", {}, names[split] || split), cfgen.element("dd", {}, size.toLocaleString("en")))));
      showAttributes(found.attributes, found.splits.train);
      at("check").textContent = found.check;
      at("whole").href = `/data/report?model=${encodeURIComponent(name)}`;
      at("sheet").src = found.sheet;
      at("sheet").alt = "A sheet of training images, each with its attributes written below it; the table above has their ranges";
      at("found").hidden = false;
    } catch (error) { cfgen.tell(error); }
  };
  cfgen.modelChoice(openModel);
})();
