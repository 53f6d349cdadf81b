// A page that was exported: the pictures were drawn beforehand, one attribute changed at a time.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const now = { example: 0, name: null, frame: null };
  const example = () => page.examples[now.example];

  const shown = () => {
    const { original, reconstruction, attributes } = example();
    const unchanged = { counterfactual: reconstruction, difference: page.same, scale: 0, counterfactual_attributes: attributes, intervened: [], moved: [], held: [], cut: [] };
    return { original, reconstruction, attributes, ...(now.frame || unchanged) };
  };
  const draw = () => cfgen.drawGraph(at("graph"), page.graph, page.controls, shown());
  const show = () => {
    const answer = shown();
    cfgen.markExample(now.example);
    cfgen.showPictures(answer, page);
    for (const { name, part } of parts) {
      const state = answer.intervened.includes(name) ? "set" : answer.moved.includes(name) ? "moved" : "";
      part.show(answer.attributes[name], answer.counterfactual_attributes[name], state);
    }
    draw();
    at("reset").disabled = !now.frame;
  };
  // the frame that was drawn nearest to a value
  const change = (name, value) => {
    const frames = example().frames[name];
    const distance = (frame) => (typeof value === "number" && typeof frame.value === "number" ? Math.abs(frame.value - value) : Number(frame.value !== value));
    Object.assign(now, { name, frame: frames.reduce((best, frame) => (distance(frame) < distance(best) ? frame : best)) });
    show();
  };
  const undo = () => { Object.assign(now, { name: null, frame: null }); show(); };
  const choose = (number) => { Object.assign(now, { example: number, name: null, frame: null }); show(); };

  const parts = page.controls.map((control) => ({ name: control.name, part: cfgen.control(control, (value) => change(control.name, value), undo) }));
  at("controls").replaceChildren(...parts.map((one) => one.part.element));
  cfgen.showExamples(page.examples.map((one) => ({ picture: one.original, attributes: one.attributes })), page, choose);
  at("reset").addEventListener("click", undo);
  cfgen.redrawGraph(draw);
  show();
})();
