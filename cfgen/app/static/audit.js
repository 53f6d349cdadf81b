// The page "Audit".
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const page = { choices: null, ticked: [] };
  const waiting = (text) => { at("status").textContent = text; };
  const counted = async (text) => {
    const { interventions: [found] } = await cfgen.ask("/api/audits/count", { body: { model: at("model").value, do: [text] } });
    return found.told;
  };
  const interventions = cfgen.composer({ place: at("do"), list: at("interventions"), called: (text) => `do(${text})`, added: counted });
  const cohorts = cfgen.composer({ place: at("among"), list: at("cohorts"), called: (text) => text, added: () => "" });

  const openModel = async (name) => {
    page.choices = null;
    for (const composer of [interventions, cohorts]) composer.offer([]);
    at("classifiers").replaceChildren();
    at("start").disabled = true;
    showClasses();
    try {
      const choices = await cfgen.ask(`/api/audits/choices?model=${encodeURIComponent(name)}`, { waiting });
      if (at("model").value !== name) return;
      cfgen.tell(null);
      page.choices = choices;
      at("count").max = choices.images;
      at("count").value = Math.min(500, choices.images);
      interventions.offer(choices.attributes);
      cohorts.offer(choices.attributes.filter((one) => one.kind !== "continuous"));
      showClassifiers(choices.classifiers);
    } catch (error) { cfgen.tell(error); }
  };

  const showClassifiers = (classifiers) => {
    const usable = classifiers.filter((one) => !one.problem);
    at("classifiers").replaceChildren(...classifiers.map((one) => {
      const box = cfgen.element("input", { type: "checkbox", name: "classifier", value: one.name, checked: one === usable[0], disabled: Boolean(one.problem), onchange: showClasses });
      return cfgen.element("label", {}, box, cfgen.element("span", {}, one.name, one.problem ? cfgen.element("small", {}, ` cannot be asked: ${one.problem}`) : one.classes.length ? cfgen.element("small", {}, ` ${one.classes.length} classes`) : null));
    }));
    if (!classifiers.length) at("classifiers").replaceChildren(cfgen.element("p", { class: "small" }, "There is none for this model's data. Train one with ", cfgen.element("code", {}, "cfgen fit"), ", or name yours when you start the app: ", cfgen.element("code", {}, "cfgen app --classifier WHAT")));
    at("start").disabled = !usable.length;
    showClasses();
  };
  const ticked = (name) => Array.from(document.querySelectorAll(`[name=${name}]:checked`), (one) => one.value);
  const showClasses = () => {
    const first = ticked("classifier").map((name) => page.choices.classifiers.find((one) => one.name === name)).find((one) => one.classes.length);
    at("focus-row").hidden = !first;
    at("focus").replaceChildren(...(first ? first.classes : []).map((name) => cfgen.element("label", {}, cfgen.element("input", { type: "checkbox", name: "focus", value: name }), name)));
  };

  const start = async (event) => {
    event.preventDefault();
    if (!interventions.chosen().length && page.choices) await interventions.add();
    if (!interventions.chosen().length) return; // the page says why
    const body = {
      model: at("model").value, classifiers: ticked("classifier"), focus: ticked("focus"), do: interventions.chosen(), among: cohorts.chosen(),
      subgroups: at("subgroups").checked, count: Number(at("count").value), judged: at("judged").checked, keep_residual: at("keep_residual").checked,
    };
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
        state: cfgen.element("span", { role: "status" }), task: cfgen.element("p", { class: "small told" }), link: cfgen.element("a", { hidden: true }, "Read the report"),
        bar: cfgen.element("progress", { max: 1, "aria-label": `Progress of the audit of ${job.classifiers.join(", ")}` }),
        cancel: cfgen.element("button", { type: "button", onclick: () => cfgen.ask("/api/audits/cancel", { body: { id: job.id } }).then(refresh, cfgen.tell) }, "Cancel"),
      };
      const head = cfgen.element("header", {}, cfgen.element("b", {}, job.classifiers.join(" and ")), parts.state);
      const told = cfgen.element("p", { class: "small" }, 
        [job.do.map((one) => `do(${one})`).join(", "), job.focus.join(", "), job.among.length && `also among ${job.among.join("; ")}`, job.subgroups && "and in every subgroup", `${job.count.toLocaleString("en")} images`, job.model].filter(Boolean).join("; "));
      parts.element = cfgen.element("div", { class: "job" }, head, told, parts.bar, parts.task, cfgen.element("div", { class: "bar" }, parts.link, parts.cancel));
      jobs.set(job.id, parts);
      if (jobs.size === 1) at("jobs").replaceChildren();
      at("jobs").prepend(parts.element);
    }
    const parts = jobs.get(job.id);
    const going = job.state === "waiting" || job.state === "running";
    parts.state.textContent = STATES[job.state];
    parts.bar.hidden = parts.cancel.hidden = !going;
    parts.task.setAttribute("aria-live", going ? "off" : "polite"); // why it stopped is told, every batch is not
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
    at("compare").hidden = earlier.length < 2;
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

  at("form").addEventListener("submit", start);
  // the older audit first: before and after
  at("compare").addEventListener("click", () => {
    const order = Array.from(page.ticked).sort((a, b) => JSON.parse(shown).findIndex((one) => one.id === b) - JSON.parse(shown).findIndex((one) => one.id === a));
    location.href = `/audit/compare?one=${encodeURIComponent(order[0])}&other=${encodeURIComponent(order[1])}`;
  });
  cfgen.modelChoice(openModel);
  refresh();
})();
