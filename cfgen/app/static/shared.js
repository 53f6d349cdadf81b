// What the app and an exported page draw alike: controls, the causal graph, words for pictures.  Text is set as text, never as HTML.
"use strict";
const cfgen = {};

cfgen.element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

cfgen.svg = (tag, attributes = {}, text = null) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
};

cfgen.title = (name) => name.replaceAll("_", " ");

// A value in words: as many digits as its control has, yes and no of a binary attribute.
cfgen.words = (control, value) => {
  if (value === undefined || value === null) return "?";
  if (control.kind === "continuous") return Number(value).toFixed(control.digits);
  if (control.kind === "binary") return Number(value) ? "yes" : "no";
  return String(value);
};

// All attributes of a picture, for those who cannot see it.
cfgen.describe = (what, controls, values) =>
  `${what}: ` + controls.map((one) => `${cfgen.title(one.name)} ${cfgen.words(one, values[one.name])}`).join(", ");

cfgen.picture = (image, source, description, size) => {
  image.src = source;
  image.alt = description;
  image.classList.toggle("pixels", size.width < 48);
};

// The four pictures; `answer` has them, and the attributes before and after.
cfgen.showPictures = (answer, { controls, image }) => {
  const [own, now] = [answer.attributes, answer.counterfactual_attributes];
  for (const [kind, values] of [["original", own], ["reconstruction", own], ["counterfactual", now]]) {
    cfgen.picture(document.getElementById(kind), answer[kind], cfgen.describe(kind, controls, values), image);
  }
  const words = `Difference of counterfactual and reconstruction: red is brighter, blue darker, at most ${answer.scale.toFixed(2)} of full brightness`;
  cfgen.picture(document.getElementById("difference"), answer.difference, words, image);
  document.getElementById("scale-low").textContent = `−${answer.scale.toFixed(2)}`;
  document.getElementById("scale-high").textContent = `+${answer.scale.toFixed(2)}`;
};

// Example pictures as buttons; `chosen(number)` is called with the one that is pressed.
cfgen.showExamples = (examples, { controls, image }, chosen) => {
  document.getElementById("examples").replaceChildren(...examples.map((example, number) => {
    const picture = cfgen.element("img", { width: 54, height: 54 });
    cfgen.picture(picture, example.picture, cfgen.describe(`Example ${number}`, controls, example.attributes), image);
    return cfgen.element("button", { type: "button", "aria-pressed": "false", onclick: () => chosen(number) }, picture);
  }));
};
cfgen.markExample = (chosen) => {
  Array.from(document.getElementById("examples").children).forEach((button, number) => button.setAttribute("aria-pressed", String(number === chosen)));
};

// Draws the graph again whenever its place becomes wider or narrower.
cfgen.redrawGraph = (draw) => {
  const place = document.getElementById("graph");
  let width = 0;
  new ResizeObserver(() => { if (Math.abs(place.clientWidth - width) > 8) { width = place.clientWidth; draw(); } }).observe(place);
};

let numbers = 0;

// The control of one attribute.  `changed(value)` is called while it is moved, `undone()` when the change is taken back.
cfgen.control = (control, changed, undone) => {
  const id = `control-${(numbers += 1)}`;
  const output = cfgen.element("output", { for: id });
  const note = cfgen.element("div", { class: "note" });
  const undo = cfgen.element(
    "button", { type: "button", class: "icon", "aria-label": `Take back the change of ${cfgen.title(control.name)}`, title: "Take back", onclick: undone }, "↺",
  );
  const unit = control.unit ? cfgen.element("span", { class: "unit" }, ` ${control.unit}`) : null;
  const label = cfgen.element("label", { for: id }, cfgen.title(control.name), unit);
  let input;
  let body = [];
  let value;
  if (control.kind === "continuous") {
    input = cfgen.element("input", { type: "range", id, min: control.low, max: control.high, step: control.step });
    input.addEventListener("input", () => changed(Number(input.value)));
    const ends = [control.low, control.high].map((end) => cfgen.element("span", {}, cfgen.words(control, end)));
    body = [input, cfgen.element("div", { class: "ends", "aria-hidden": "true" }, ...ends)];
    value = (given) => { input.value = given; };
  } else if (control.kind === "binary") {
    input = cfgen.element("input", { type: "checkbox", role: "switch", class: "switch", id });
    input.addEventListener("change", () => changed(input.checked ? 1 : 0));
    value = (given) => { input.checked = Number(given) === 1; };
  } else {
    input = cfgen.element("select", { id }, ...control.values.map((one, place) => cfgen.element("option", { value: place }, String(one))));
    input.addEventListener("change", () => changed(control.values[Number(input.value)]));
    body = [input];
    value = (given) => { input.value = control.values.findIndex((one) => String(one) === String(given)); };
  }
  const binary = control.kind === "binary";
  const head = cfgen.element("div", { class: "head" }, ...(binary ? [input, label] : [label]), output, undo);
  const element = cfgen.element("div", { class: `control ${control.kind}` }, head, ...body, note);
  return {
    element, input,
    // `own` is the image's value, `now` the counterfactual's; `state` is "set", "moved", "held" or "".
    show(own, now, state) {
      value(now);
      element.classList.toggle("set", state === "set");
      element.classList.toggle("moved", state === "moved");
      undo.hidden = state !== "set";
      const [before, after] = [cfgen.words(control, own), cfgen.words(control, now)];
      output.textContent = after;
      note.textContent = { set: `● set by you; was ${before}`, moved: `◆ follows the graph; was ${before}`, held: "▪ kept, although its cause changed" }[state] || "";
      input.setAttribute("aria-valuetext", `${after}${control.unit ? ` ${control.unit}` : ""}${note.textContent ? `, ${note.textContent.slice(2)}` : ""}`);
      if (control.kind !== "continuous") input.removeAttribute("aria-valuetext");
    },
    // while a slider moves, its number moves along
    echo(now) { output.textContent = cfgen.words(control, now); },
  };
};

// Each level in as many rows as the width asks for, as even as can be.  Where the first level takes more than one, attributes
// without causes and effects stand below all others, so that no arrow has to pass them.
const wrapped = ({ levels, edges }, most) => {
  const joined = new Set(edges.flat());
  const [first, ...rest] = levels;
  const parted = first.length > most ? [first.filter((one) => joined.has(one)), ...rest, first.filter((one) => !joined.has(one))] : levels;
  return parted.filter((names) => names.length).flatMap((names) => {
    const size = Math.ceil(names.length / Math.ceil(names.length / most));
    return Array.from({ length: Math.ceil(names.length / size) }, (_, row) => names.slice(row * size, (row + 1) * size));
  });
};

// Where the nodes of a row stand: in the middle, and effects below their causes as far as there is room.
const placed = (row, edges, at, total, across) => {
  const even = row.map((_, index) => total / 2 + (index - (row.length - 1) / 2) * across);
  const wanted = row.map((name, index) => {
    const causes = edges.filter(([, effect]) => effect === name).map(([cause]) => at[cause][0]);
    return causes.length ? causes.reduce((sum, x) => sum + x, 0) / causes.length : even[index];
  });
  const middle = wanted.reduce((sum, x) => sum + x, 0) / row.length;
  const half = (row.length * across) / 2;
  const shift = Math.min(Math.max(middle, half), total - half) - total / 2;
  return even.map((x) => x + shift);
};

// The causal graph.  `answer` has attributes before and after, what was set, what moved, what is held and which edges are cut.
cfgen.drawGraph = (place, graph, controls, answer) => {
  const known = Object.fromEntries(controls.map((one) => [one.name, one]));
  const names = graph.levels.flat();
  const room = Math.max(place.clientWidth || 640, 260);
  const longest = Math.max(...names.map((name) => cfgen.title(name).length));
  const width = Math.min(Math.max(118, 8 * longest + 18), 190);
  const [height, across] = [46, width + 18];
  const rows = wrapped(graph, Math.max(1, Math.min(Math.floor(room / across), 6)));
  const columns = Math.max(...rows.map((row) => row.length));
  const few = names.length <= 6;
  const causes = new Set(graph.edges.map(([cause]) => cause));
  const tops = [4]; // arrows need room below a row
  for (const row of rows) tops.push(tops.at(-1) + (few || row.some((name) => causes.has(name)) ? 88 : 60));
  const total = [Math.max(columns * across, 240), tops.at(-1) + height + 4];
  const svg = cfgen.svg("svg", { viewBox: `-10 0 ${total[0] + 20} ${total[1]}`, role: "img", "aria-label": cfgen.graphWords(graph, controls, answer) });
  svg.setAttribute("width", total[0] + 20);
  const at = {};
  rows.forEach((row, level) => placed(row, graph.edges, at, total[0], across).forEach((x, index) => { at[row[index]] = [x, tops[level] + height / 2]; }));
  const image = [total[0] / 2, tops.at(-1) + height / 2];
  const marker = cfgen.svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" });
  marker.append(cfgen.svg("path", { d: "M0 0 L8 4 L0 8 z" }));
  const definitions = cfgen.svg("defs");
  definitions.append(marker);
  svg.append(definitions);
  const blocked = (from, to) => Object.values(at).some(([x, y]) => y > from[1] && y < to[1] && Math.abs(x - from[0] - ((to[0] - from[0]) * (y - from[1])) / (to[1] - from[1])) < width / 2);
  // around the boxes in between: an arrow behind them would look like a chain
  const aside = (from, to, kind) => {
    const [x1, x2, far] = [from[0] - width / 2, to[0] - width / 2 - 2, Math.min(from[0], to[0]) - width / 2 - 24];
    svg.append(cfgen.svg("path", { class: kind, d: `M${x1} ${from[1]} C${far} ${from[1]} ${far} ${to[1]} ${x2} ${to[1]}`, "marker-end": "url(#arrow)" }));
    if (kind === "cut") svg.append(cfgen.svg("text", { class: "scissors", x: far + 8, y: (from[1] + to[1]) / 2 + 5 }, "✂"));
  };
  const edge = (from, to, kind) => {
    if (blocked(from, to)) { aside(from, to, kind); return; }
    const [x1, y1, x2, y2] = [from[0], from[1] + height / 2, to[0], to[1] - height / 2 - 2];
    const bend = Math.max(18, (y2 - y1) / 2);
    svg.append(cfgen.svg("path", { class: kind, d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, "marker-end": "url(#arrow)" }));
    if (kind === "cut") svg.append(cfgen.svg("text", { class: "scissors", x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 5 }, "✂"));
  };
  if (few) names.forEach((name) => edge(at[name], image, "to-image"));
  for (const [cause, effect] of graph.edges) {
    const cut = answer.cut.some(([c, e]) => c === cause && e === effect);
    edge(at[cause], at[effect], cut ? "cut" : answer.moved.includes(effect) ? "active" : "");
  }
  const box = ([x, y], kind, lines) => {
    const group = cfgen.svg("g", { class: kind });
    group.append(cfgen.svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 9 }));
    lines.forEach((line, k) => group.append(cfgen.svg("text", { x, y: y + (lines.length === 1 ? 5 : k ? 17 : -2), class: k ? "value" : "name" }, line)));
    svg.append(group);
  };
  for (const name of names) {
    const [old, now] = [answer.attributes[name], answer.counterfactual_attributes[name]].map((value) => cfgen.words(known[name], value));
    const kind = answer.intervened.includes(name) ? "set" : answer.moved.includes(name) ? "moved" : answer.held.includes(name) ? "held" : "";
    const mark = { set: "● ", moved: "◆ ", held: "▪ " }[kind] || "";
    box(at[name], kind, [cfgen.title(name), `${mark}${kind && old !== now ? `${old} → ${now}` : now}`]);
  }
  box(image, "image", few ? ["image"] : ["image", "all attributes cause it"]);
  place.replaceChildren(svg);
};

cfgen.graphWords = (graph, controls, answer) => {
  const known = Object.fromEntries(controls.map((one) => [one.name, one]));
  const change = (name) => `${cfgen.title(name)} from ${cfgen.words(known[name], answer.attributes[name])} to ${cfgen.words(known[name], answer.counterfactual_attributes[name])}`;
  const parts = [`Causal graph. ${graph.edges.map(([cause, effect]) => `${cfgen.title(cause)} causes ${cfgen.title(effect)}`).join(", ") || "No attribute causes another"}.`];
  if (answer.intervened.length) parts.push(`Set by you: ${answer.intervened.map(change).join(", ")}.`);
  if (answer.moved.length) parts.push(`Follows: ${answer.moved.map(change).join(", ")}.`);
  if (answer.cut.length) parts.push(`Cut: ${answer.cut.map(([cause, effect]) => `${cfgen.title(cause)} to ${cfgen.title(effect)}`).join(", ")}.`);
  return parts.join(" ");
};
