// The page "Audit".
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const page = { choices: null, chosen: [], joined: [], ticked: [] };
  const waiting = (text) => { at("status").textContent = text; };
  const attribute = () => page.choices.attributes.find((one) => one.name === at("attribute").value);

  const openModel = async (name) => {
    Object.assign(page, { choices: null, chosen: [], joined: [] });
    at("interventions").replaceChildren();
    at("classifiers").replaceChildren();
    try {
      const choices = await cfgen.ask(`/api/audits/choices?model=${encodeURIComponent(name)}`, { waiting });
      if (at("model").value !== name) return;
      cfgen.tell(null);
      page.choices = choices;
      at("count").max = choices.images;
      at("count").value = Math.min(500, choices.images);
      at("attribute").replaceChildren(...choices.attributes.map((one) => cfgen.element("option", { value: one.name }, cfgen.title(one.name))));
      at("classifiers").replaceChildren(...choices.classifiers.map((one, number) => cfgen.element("label", {}, cfgen.element("input", { type: "checkbox", name: "classifier", value: one, checked: number === 0 }), one)));
      if (!choices.classifiers.length) at("classifiers").replaceChildren(cfgen.element("p", { class: "small" }, "There is none for this model's data. Train one with cfgen fit, or name yours when you start the app: cfgen app --classifier WHAT"));
      showValue();
    } catch (error) { cfgen.tell(error); }
  };

  const showValue = () => {
    const one = attribute();
    const input = one.kind === "continuous"
      ? cfgen.element("input", { type: "number", id: "value", step: "any", min: one.low, max: one.high, value: ((one.low + one.high) / 2).toPrecision(3), "aria-label": `Value, ${one.low.toPrecision(4)} to ${one.high.toPrecision(4)}` })
      : cfgen.element("select", { id: "value", "aria-label": "Value" }, ...one.values.map((value, place) => cfgen.element("option", { value: String(value), selected: place === one.values.length - 1 }, `${one.kind === "binary" ? ["no", "yes"][place] : value} (${one.counts[place].toLocaleString("en")} images)`)));
    at("value-place").replaceChildren(input);
  };

  const part = () => `${attribute().name}=${at("value").value}`;
  const join = () => {
    page.joined = [...page.joined.filter((one) => one.split("=")[0] !== attribute().name), part()];
    at("joined").textContent = `${page.joined.join(" and ")} and …`;
  };
  const add = async () => {
    const text = [...page.joined.filter((one) => one.split("=")[0] !== attribute().name), part()].join(",");
    try {
      const { interventions: [counted] } = await cfgen.ask("/api/audits/count", { body: { model: at("model").value, do: [text] } });
      cfgen.tell(null);
      page.joined = [];
      at("joined").textContent = "";
      if (!page.chosen.includes(text)) { page.chosen.push(text); showChosen(text, counted); }
    } catch (error) { cfgen.tell(error); }
  };
  const showChosen = (text, { have, images }) => {
    const item = cfgen.element("li", {}, cfgen.element("span", {}, cfgen.element("b", {}, `do(${text.replaceAll(",", ", ")})`), cfgen.element("br"), cfgen.element("small", {}, `${have.toLocaleString("en")} of ${images.toLocaleString("en")} test images have it already; the others are asked about`)));
    item.append(cfgen.element("button", { type: "button", class: "icon", "aria-label": `Remove do(${text})`, onclick: () => { page.chosen = page.chosen.filter((one) => one !== text); item.remove(); } }, "✕"));
    at("interventions").append(item);
  };

  const start = async (event) => {
    event.preventDefault();
    if (!page.chosen.length && page.choices) await add();
    const classifiers = Array.from(document.querySelectorAll("[name=classifier]:checked"), (one) => one.value);
    const body = { model: at("model").value, classifiers, do: page.chosen, count: Number(at("count").value), judged: at("judged").checked, keep_residual: at("keep_residual").checked };
    try {
      await cfgen.ask("/api/audits", { body });
      cfgen.tell(null);
      await refresh();
    } catch (error) { cfgen.tell(error); }
  };

  const STATES = { waiting: "waiting", running: "running", done: "✓ done", failed: "⚠ stopped", cancelled: "cancelled" };
  const jobs = new Map();
  // each job keeps its elements, so that a button keeps the focus while numbers change
  const showJob = (job) => {
    if (!jobs.has(job.id)) {
      const parts = {
        state: cfgen.element("span", {}), task: cfgen.element("p", { class: "small told", role: "status" }), link: cfgen.element("a", { hidden: true }, "Read the report"),
        bar: cfgen.element("progress", { max: 1, "aria-label": `Progress of the audit of ${job.classifiers.join(", ")}` }),
        cancel: cfgen.element("button", { type: "button", onclick: () => cfgen.ask("/api/audits/cancel", { body: { id: job.id } }).then(refresh, cfgen.tell) }, "Cancel"),
      };
      const head = cfgen.element("header", {}, cfgen.element("b", {}, job.classifiers.join(" and ")), parts.state);
      const told = cfgen.element("p", { class: "small" }, `${job.do.map((one) => `do(${one})`).join(", ")}; ${job.count.toLocaleString("en")} images; ${job.model}`);
      parts.element = cfgen.element("div", { class: "job" }, head, told, parts.bar, parts.task, cfgen.element("div", { class: "bar" }, parts.link, parts.cancel));
      jobs.set(job.id, parts);
      if (jobs.size === 1) at("jobs").replaceChildren();
      at("jobs").prepend(parts.element);
    }
    const parts = jobs.get(job.id);
    const going = job.state === "waiting" || job.state === "running";
    parts.state.textContent = STATES[job.state];
    parts.bar.hidden = parts.cancel.hidden = !going;
    if (job.total) parts.bar.value = job.done / job.total;
    parts.task.textContent = job.message || (job.state === "waiting" ? `${job.position} ${job.position === 1 ? "audit comes" : "audits come"} first` : job.state === "running" ? `${job.task}${job.total ? `: ${job.done.toLocaleString("en")} of ${job.total.toLocaleString("en")}` : ""}` : "");
    parts.link.hidden = !job.report;
    if (job.report) parts.link.href = `/audit/report?id=${encodeURIComponent(job.report)}`;
    return going;
  };

  const showEarlier = (earlier) => {
    at("earlier").replaceChildren(...earlier.map((one) => {
      const tick = cfgen.element("input", { type: "checkbox", "aria-label": `Compare audit ${one.number} of ${one.model}`, checked: page.ticked.includes(one.id) });
      tick.addEventListener("change", () => {
        page.ticked = tick.checked ? [...page.ticked, one.id].slice(-2) : page.ticked.filter((id) => id !== one.id);
        showEarlier(earlier);
      });
      const link = cfgen.element("a", { href: `/audit/report?id=${encodeURIComponent(one.id)}` }, `${one.model}, ${one.number}`);
      return cfgen.element("tr", {}, cfgen.element("td", {}, tick), cfgen.element("td", {}, link, cfgen.element("br"), cfgen.element("small", {}, one.classifiers.join(", "))), cfgen.element("td", {}, one.do.map((text) => `do(${text})`).join(", ")), cfgen.element("td", { class: "number" }, (one.images || 0).toLocaleString("en")));
    }));
    if (!earlier.length) at("earlier").replaceChildren(cfgen.element("tr", {}, cfgen.element("td", { colspan: 4 }, "None yet.")));
    at("compare").disabled = page.ticked.length !== 2;
  };

  let timer = 0;
  let shown = "";
  const refresh = async () => {
    clearTimeout(timer);
    try {
      const { jobs: all, earlier } = await cfgen.ask("/api/audits");
      const going = all.reverse().map(showJob).some(Boolean);
      const key = JSON.stringify(earlier);
      if (key !== shown) { shown = key; showEarlier(earlier); }
      if (going) timer = setTimeout(refresh, 700);
    } catch (error) { cfgen.tell(error); timer = setTimeout(refresh, 3000); }
  };

  at("attribute").addEventListener("change", showValue);
  at("add").addEventListener("click", add);
  at("join").addEventListener("click", join);
  at("form").addEventListener("submit", start);
  // the older audit first: before and after
  at("compare").addEventListener("click", () => {
    const order = Array.from(page.ticked).sort((a, b) => JSON.parse(shown).findIndex((one) => one.id === b) - JSON.parse(shown).findIndex((one) => one.id === a));
    location.href = `/audit/compare?one=${encodeURIComponent(order[0])}&other=${encodeURIComponent(order[1])}`;
  });
  cfgen.modelChoice(openModel);
  refresh();
})();
