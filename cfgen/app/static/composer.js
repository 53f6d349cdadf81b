// A row of controls that composes text such as `size=+1sd` or `colour=red,wet=1`, and the list of what was added.
"use strict";

// How a continuous attribute is changed; a shift and a comparison are asked alone.
const WAYS = {
  set: { words: "set to", fields: ["Value"], text: ([value]) => value, joins: true },
  shift: { words: "shift by", fields: ["Amount"], text: ([value]) => `+${value}` },
  deviations: { words: "shift by standard deviations", fields: ["Number of standard deviations"], text: ([value]) => `${value.startsWith("-") ? "" : "+"}${value}sd` },
  contrast: { words: "compare two values", fields: ["From", "To"], text: ([from, to]) => `${from}:${to}` },
};

// `added(text)` is called with what was composed and says in words what it means, or nothing; `called(text)` is its name in the list.
cfgen.composer = ({ place, list, called, added }) => {
  const page = { attributes: [], chosen: [], joined: [] };
  const attributeSelect = cfgen.element("select", { "aria-label": "Attribute", autocomplete: "off" });
  const waySelect = cfgen.element("select", { "aria-label": "How it is changed", autocomplete: "off" }, ...Object.entries(WAYS).map(([name, way]) => cfgen.element("option", { value: name }, way.words)));
  const values = cfgen.element("span", { class: "values" });
  const addButton = cfgen.element("button", { type: "button" }, "Add");
  const joinButton = cfgen.element("button", { type: "button", class: "plain" }, "and at the same time …");
  const joinedWords = cfgen.element("p", { class: "small", role: "status" });
  place.classList.add("composer");
  place.replaceChildren(joinedWords, cfgen.element("div", { class: "parts" }, attributeSelect, waySelect, values), cfgen.element("div", { class: "bar line" }, addButton, joinButton));

  const attribute = () => page.attributes.find((one) => one.name === attributeSelect.value);
  const way = () => (attribute().kind === "continuous" ? WAYS[waySelect.value] : WAYS.set);
  const start = ({ low, high }) => ({ set: [(low + high) / 2], shift: [(high - low) / 10], deviations: [1], contrast: [low + (high - low) / 4, high - (high - low) / 4] })[waySelect.value];
  const showWay = () => {
    const one = attribute();
    const continuous = one.kind === "continuous";
    waySelect.hidden = !continuous;
    joinButton.disabled = !way().joins;
    if (!continuous) {
      const option = (value, number) => cfgen.element("option", { value: String(value), selected: number === one.values.length - 1 }, `${one.kind === "binary" ? ["no", "yes"][number] : value} (${one.counts[number].toLocaleString("en")} images)`);
      values.replaceChildren(cfgen.element("select", { "aria-label": "Value" }, ...one.values.map(option)));
      return;
    }
    const range = `${one.low.toPrecision(4)} to ${one.high.toPrecision(4)}`;
    const limits = waySelect.value === "set" || waySelect.value === "contrast";
    const field = (words, number) => cfgen.element("input", { type: "number", step: "any", class: "short", "aria-label": limits ? `${words}, ${range}` : words, value: Number(start(one)[number].toPrecision(3)) });
    values.replaceChildren(...way().fields.map(field), limits ? cfgen.element("small", {}, range) : "");
  };

  const text = () => {
    const typed = Array.from(values.querySelectorAll("input, select"), (one) => one.value);
    if (typed.some((one) => one === "")) throw new Error("a value is missing: type a number, with a point for decimals");
    return `${attribute().name}=${way().text(typed)}`;
  };
  const others = () => page.joined.filter((one) => one.split("=")[0] !== attribute().name);
  const joined = (parts) => { page.joined = parts; joinedWords.textContent = parts.length ? `${parts.join(" and ")} and …` : ""; };
  const add = async () => {
    try {
      const composed = [...others(), text()].join(",");
      if (page.chosen.includes(composed)) { joined([]); return; }
      const told = await added(composed);
      cfgen.tell(null);
      joined([]);
      page.chosen.push(composed);
      show(composed, told);
    } catch (error) { cfgen.tell(error); }
  };
  const show = (composed, told) => {
    const name = called(composed.replaceAll(",", ", "));
    const remove = () => { page.chosen = page.chosen.filter((one) => one !== composed); item.remove(); };
    const item = cfgen.element("li", {}, cfgen.element("span", {}, cfgen.element("b", {}, name), ...(told ? [cfgen.element("br"), cfgen.element("small", {}, told)] : [])), cfgen.element("button", { type: "button", class: "icon", "aria-label": `Remove ${name}`, onclick: remove }, "✕"));
    list.append(item);
  };

  attributeSelect.addEventListener("change", showWay);
  waySelect.addEventListener("change", showWay);
  addButton.addEventListener("click", add);
  joinButton.addEventListener("click", () => { try { joined([...others(), text()]); } catch (error) { cfgen.tell(error); } });
  return {
    add,
    chosen: () => page.chosen,
    // begins anew with these attributes
    offer(attributes) {
      Object.assign(page, { attributes, chosen: [] });
      joined([]);
      list.replaceChildren();
      attributeSelect.replaceChildren(...attributes.map((one) => cfgen.element("option", { value: one.name }, cfgen.title(one.name))));
      place.hidden = !attributes.length;
      if (attributes.length) showWay();
    },
  };
};
