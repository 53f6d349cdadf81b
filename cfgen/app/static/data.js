// The page "Data".
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const number = (value) => (value === null || value === undefined ? "" : typeof value !== "number" ? String(value) : Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4));
  const openModel = async (name) => {
    at("found").hidden = true;
    try {
      const found = await cfgen.ask(`/api/data?model=${encodeURIComponent(name)}`, { waiting: (text) => { at("status").textContent = text; } });
      if (at("model").value !== name) return;
      cfgen.tell(null);
      at("about").textContent = found.about;
      const names = { train: "training images", val: "validation images", test: "test images" };
      at("splits").replaceChildren(...Object.entries(found.splits).map(([split, size]) => cfgen.element("div", {}, cfgen.element("dt", {}, names[split] || split), cfgen.element("dd", {}, size.toLocaleString("en")))));
      at("attributes").replaceChildren(...found.attributes.map((one) => cfgen.element("tr", {}, cfgen.element("th", { scope: "row" }, cfgen.title(one.attribute)), cfgen.element("td", {}, one.kind), cfgen.element("td", {}, one.unit || ""), cfgen.element("td", {}, Object.entries(one.counts || {}).map(([value, count]) => `${value}: ${count.toLocaleString("en")}`).join(", ")), ...["lowest", "highest", "mean", "std"].map((key) => cfgen.element("td", { class: "number" }, number(one[key]))))));
      at("check").textContent = found.check;
      at("whole").href = `/data/report?model=${encodeURIComponent(name)}`;
      at("sheet").src = found.sheet;
      at("sheet").alt = "A sheet of training images, each with its attributes written below it; the table above has their ranges";
      at("found").hidden = false;
    } catch (error) { cfgen.tell(error); }
  };
  cfgen.modelChoice(openModel);
})();
