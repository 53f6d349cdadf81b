// The page "What if".
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const page = { shown: null, controls: [], image: null, given: {}, do: {}, answer: null };
  const waiting = (text) => { at("status").textContent = text; };

  const question = () => ({
    model: page.shown.model, image: page.image, given: page.given, do: page.do,
    follow: at("follow").checked, classifier: at("classifier").value || null,
  });

  // One question is on its way at a time; the newest follows it, or takes its place where it waits in a queue.
  const flight = { controller: null, since: 0, again: false };
  const IN_A_QUEUE = 250;
  const askAgain = async () => {
    if (page.image === null) return;
    if (flight.controller) {
      if (performance.now() - flight.since < IN_A_QUEUE) { flight.again = true; return; }
      flight.controller.abort();
    }
    const controller = new AbortController();
    Object.assign(flight, { controller, since: performance.now(), again: false });
    document.body.classList.add("busy");
    try {
      const answer = await cfgen.ask("/api/answer", { body: question(), signal: controller.signal, waiting });
      if (flight.controller === controller) { cfgen.tell(null); show(answer); }
    } catch (error) {
      cfgen.tell(error);
    } finally {
      if (flight.controller === controller) {
        flight.controller = null;
        document.body.classList.remove("busy");
        if (flight.again) askAgain();
        else askStrip();
      }
    }
  };
  const newSubject = () => { if (flight.controller) { flight.controller.abort(); flight.controller = null; } askAgain(); };

  const show = (answer) => {
    page.answer = answer;
    const [own, now] = [answer.attributes, answer.counterfactual_attributes];
    cfgen.showPictures(answer, page.shown);
    for (const { name, part } of page.controls) {
      const state = name in page.do ? "set" : answer.moved.includes(name) ? "moved" : answer.held.includes(name) ? "held" : "";
      part.show(own[name], name in page.do ? page.do[name] : now[name], state); // what is set now may be newer than the answer
    }
    drawGraph();
    showClassifier(answer.classifier);
    at("reset").disabled = Object.keys(page.do).length === 0;
    for (const kind of ["python", "shell"]) at(kind).textContent = answer[kind] || "Change an attribute first.";
    for (const button of document.querySelectorAll("[data-copy]")) button.disabled = !answer.shell;
    at("save-one").href = answer.counterfactual;
    at("take").hidden = false;
  };

  const drawGraph = () => { if (page.answer) cfgen.drawGraph(at("graph"), page.shown.graph, page.shown.controls, page.answer); };

  const PICTURES = ["original", "reconstruction", "counterfactual"];
  const showClassifier = (said) => {
    at("says").hidden = !said;
    if (!said) return;
    at("says-of").textContent = said.label ? `: ${said.label}?` : "";
    at("answers").replaceChildren(...said.answers.flatMap(({ answer, p }, number) => [
      cfgen.element("span", {}, PICTURES[number]),
      p === null ? cfgen.element("span", {}) : cfgen.element("meter", { min: 0, max: 1, value: p, "aria-label": `${PICTURES[number]}: probability of ${said.label ? "yes" : answer}`, "aria-valuetext": p.toFixed(3) }),
      cfgen.element("b", {}, answer),
      cfgen.element("span", {}, p === null ? "" : p.toFixed(3)),
    ]));
    at("says-how").textContent = said.answers[0].p === null ? "" : said.label ? "The bars show the probability of yes." : "The bars show the probability of the answer.";
    const [, before, after] = said.answers.map((one) => one.answer);
    at("flip").textContent = before === after ? "The answer stays the same." : `⇄ The answer turns from ${before} to ${after}.`;
    at("flip").classList.toggle("flip", before !== after);
  };

  let stripTimer = 0;
  let stripOf = "";
  const askStrip = () => {
    clearTimeout(stripTimer);
    const attribute = at("strip-of").value;
    const others = Object.fromEntries(Object.entries(page.do).filter(([name]) => name !== attribute));
    const asked = { ...question(), do: others, attribute };
    const key = JSON.stringify(asked);
    if (key === stripOf) { markStrip(); return; }
    stripTimer = setTimeout(async () => {
      try {
        const found = await cfgen.ask("/api/strip", { body: asked });
        stripOf = key;
        showStrip(found);
      } catch (error) { cfgen.tell(error); }
    }, 150);
  };
  const showStrip = ({ attribute, frames }) => {
    const control = page.shown.controls.find((one) => one.name === attribute);
    at("strip").replaceChildren(...frames.map((frame) => {
      const image = cfgen.element("img", { width: 74, height: 74 });
      cfgen.picture(image, frame.picture, cfgen.describe("counterfactual", page.shown.controls, frame.attributes), page.shown.image);
      const said = frame.classifier;
      const answer = said && cfgen.element("small", {}, said.p === null ? said.answer : `${said.answer} · ${said.p.toFixed(2)}`);
      const button = cfgen.element("button", { type: "button", onclick: () => change(attribute, frame.value) }, image, cfgen.words(control, frame.value), answer);
      button.dataset.value = JSON.stringify(frame.value);
      return button;
    }));
    markStrip();
  };
  const markStrip = () => {
    const set = page.do[at("strip-of").value];
    for (const button of at("strip").children) button.setAttribute("aria-pressed", String(button.dataset.value === JSON.stringify(set)));
  };

  const change = (name, value) => {
    page.do[name] = value;
    page.controls.find((one) => one.name === name).part.echo(value);
    askAgain();
  };
  const undo = (name) => { delete page.do[name]; askAgain(); };

  const openModel = async (name) => {
    try {
      const shown = await cfgen.ask(`/api/model?model=${encodeURIComponent(name)}`, { waiting });
      if (at("model").value !== name) return;
      cfgen.tell(null);
      Object.assign(page, { shown, do: {}, given: {}, image: null, answer: null });
      stripOf = "";
      page.controls = shown.controls.map((control) => ({
        name: control.name, part: cfgen.control(control, (value) => change(control.name, value), () => undo(control.name)),
      }));
      at("controls").replaceChildren(...page.controls.map((one) => one.part.element));
      at("strip-of").replaceChildren(...shown.controls.map((one) => cfgen.element("option", { value: one.name }, cfgen.title(one.name))));
      const none = cfgen.element("option", { value: "" }, shown.classifiers.length ? "none" : "none here");
      at("classifier").replaceChildren(none, ...shown.classifiers.map((one) => cfgen.element("option", { value: one }, one)));
      at("classifier").value = shown.classifiers[0] || "";
      at("own").hidden = true;
      at("follow-row").hidden = shown.graph.edges.length === 0;
      cfgen.showExamples(shown.examples, shown, (number) => choose(number));
      at("bench").hidden = shown.examples.length === 0;
      if (shown.examples.length) choose(0);
      else cfgen.tell(new Error(`${shown.examples_error} Choose a picture of your own.`));
    } catch (error) { cfgen.tell(error); }
  };

  const choose = (image, given = {}) => {
    Object.assign(page, { image, given, do: {} });
    cfgen.markExample(image);
    at("bench").hidden = false;
    newSubject();
  };

  const upload = async () => {
    const [file] = at("file").files;
    if (!file) return;
    at("file").value = "";
    try {
      const query = new URLSearchParams({ model: page.shown.model, name: file.name });
      const found = await cfgen.ask(`/api/upload?${query}`, { file, waiting });
      cfgen.tell(null);
      askAttributes(found);
    } catch (error) { cfgen.tell(error); }
  };
  const askAttributes = ({ upload: id, name, picture, proposed }) => {
    const fields = page.shown.controls.map((control) => {
      const told = proposed[control.name];
      const field = `given-${control.name}`;
      const values = control.kind === "binary" ? [[0, "no"], [1, "yes"]] : (control.values || []).map((one) => [one, String(one)]);
      const input = control.kind === "continuous"
        ? cfgen.element("input", { type: "number", id: field, step: "any", required: true, value: told && Number(told.value).toPrecision(5) })
        : cfgen.element("select", { id: field, required: true }, cfgen.element("option", { value: "" }, "choose …"), ...values.map(([one, text]) => cfgen.element("option", { value: JSON.stringify(one), selected: told !== undefined && String(told.value) === String(one) }, text)));
      const before = input.value;
      const read = () => (control.kind === "continuous" ? Number(input.value) : JSON.parse(input.value));
      const element = cfgen.element("div", { class: "field" }, cfgen.element("label", { for: field }, cfgen.title(control.name), control.unit ? ` (${control.unit})` : ""), input, cfgen.element("small", {}, told ? told.by : "not known: please say"));
      return { name: control.name, element, read, stays: () => told && told.measured && input.value === before };
    });
    const image = cfgen.element("img", { width: 96, height: 96 });
    cfgen.picture(image, picture, `Your picture ${name}, as the model sees it`, page.shown.image);
    at("own-picture").replaceChildren(image);
    at("own-fields").replaceChildren(...fields.map((one) => one.element));
    at("own").onsubmit = (event) => {
      event.preventDefault();
      const given = Object.fromEntries(fields.filter((one) => !one.stays()).map((one) => [one.name, one.read()]));
      at("own").hidden = true;
      choose(id, given);
    };
    at("own").hidden = false;
    at("own").querySelector("input, select").focus();
  };

  const copy = async (kind) => {
    const text = at(kind).textContent;
    try { await navigator.clipboard.writeText(text); }
    catch { // an address that is not this machine's own has no clipboard: mark the text, and let the old way copy it
      getSelection().selectAllChildren(at(kind));
      document.execCommand("copy");
    }
    waiting("Copied.");
  };

  // The four pictures side by side with their names, as one PNG.
  const saveAll = async () => {
    const kinds = ["original", "reconstruction", "counterfactual", "difference"];
    const [size, gap, words] = [256, 16, 36];
    const canvas = cfgen.element("canvas", { width: kinds.length * (size + gap) + gap, height: size + words + 2 * gap });
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.imageSmoothingEnabled = page.shown.image.width >= 48;
    pen.fillStyle = "#000";
    pen.font = "16px sans-serif";
    kinds.forEach((kind, number) => {
      const left = gap + number * (size + gap);
      pen.drawImage(at(kind), left, gap, size, size);
      pen.fillText(kind === "difference" ? `difference, ±${page.answer.scale.toFixed(2)}` : kind, left, gap + size + 24);
    });
    const blob = await new Promise((done) => { canvas.toBlob(done); });
    const link = cfgen.element("a", { href: URL.createObjectURL(blob), download: "what-if.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  at("follow").addEventListener("change", askAgain);
  at("classifier").addEventListener("change", newSubject);
  at("strip-of").addEventListener("change", askStrip);
  at("reset").addEventListener("click", () => { page.do = {}; askAgain(); });
  at("file").addEventListener("change", upload);
  at("own-cancel").addEventListener("click", () => { at("own").hidden = true; });
  at("save-all").addEventListener("click", saveAll);
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button.dataset.copy));
  cfgen.redrawGraph(drawGraph);
  cfgen.modelChoice(openModel);
})();
