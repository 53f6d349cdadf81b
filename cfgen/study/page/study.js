"use strict";
// A whole sitting in one page.  Every answer is one line of JSON, kept in this browser at once and, where a server gave the
// page (STUDY.server), sent to it.  Nothing about the person or the device is written down.

const at = (id) => document.getElementById(id);
const KEPT = `cfgen-study-${STUDY.id}`;
const VALID = /^[0-9a-f]{16}$/;
const PAUSE = 250; // ms after a picture appeared in which a key or click still belongs to the question before

let participant = "";
let sheet = [];
let lines = []; // by the number of the question
let sent = new Set(); // numbers that the server has
let shownAt = 0;
let waiting = false; // for an answer
let sending = Promise.resolve();

function stored(key) { try { return localStorage.getItem(key); } catch { return null; } }
function store(key, value) { try { localStorage.setItem(key, value); } catch { /* private windows: the page itself remembers */ } }

function show(name) {
  for (const section of document.querySelectorAll("section")) section.hidden = section.id !== name;
  const heading = at(name).querySelector("h1");
  if (heading) heading.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function paragraphs(place, texts) {
  place.replaceChildren(...texts.map((text) => {
    const one = document.createElement("p");
    one.textContent = text;
    return one;
  }));
}

function fresh() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function address() { return `${location.href.split("#")[0]}#p=${participant}`; }

function become(id) {
  participant = id;
  store(KEPT, id);
  history.replaceState(null, "", address());
  const codes = STUDY.sheets[parseInt(id.slice(0, 8), 16) % STUDY.sheets.length];
  sheet = codes.map((code) => ({ trial: STUDY.trials[code >> 1], flipped: code & 1 }));
  lines = [];
  sent = new Set();
  let kept = [];
  try { kept = JSON.parse(stored(`${KEPT}-${id}`) || "[]"); } catch { /* begins anew */ }
  if (Array.isArray(kept)) kept.forEach(take);
}

function take(line) {
  const place = line && Number.isInteger(line.number) ? sheet[line.number] : undefined;
  if (place && line.trial === place.trial.id && line.study === STUDY.id && line.participant === participant) lines[line.number] = line;
}

function keep() { store(`${KEPT}-${participant}`, JSON.stringify(lines.filter(Boolean))); }

function nextNumber() {
  for (let number = 0; number < sheet.length; number += 1) if (!lines[number]) return number;
  return sheet.length;
}

// the server

async function known() {
  if (!STUDY.server) return;
  try {
    const answer = await fetch(`answers?p=${participant}`, { headers: { "X-Client": "study" } });
    if (!answer.ok) return;
    for (const line of await answer.json()) { take(line); sent.add(line.number); }
    keep();
  } catch { /* not reachable: this browser's own lines are enough to go on */ }
}

function send() {
  if (!STUDY.server) return Promise.resolve(true);
  sending = sending.then(async () => {
    for (const line of lines.filter((one) => one && !sent.has(one.number))) {
      try {
        const answer = await fetch("answers", {
          method: "POST", headers: { "Content-Type": "application/json", "X-Client": "study" }, body: JSON.stringify(line),
        });
        if (!answer.ok) return false;
        sent.add(line.number);
      } catch { return false; }
    }
    return true;
  });
  return sending;
}

// pictures

function loaded() {
  const names = new Set(sheet.flatMap(({ trial }) => trial.images));
  return Promise.all(Array.from(names, (name) => new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = resolve;
    image.onerror = () => reject(new Error(name));
    image.src = `images/${name}`;
  })));
}

// the steps

function begin() {
  document.title = STUDY.title;
  for (const title of document.querySelectorAll(".title")) title.textContent = STUDY.title;
  paragraphs(at("consent-text"), STUDY.consent.split(/\n\s*\n/));
  paragraphs(at("instructions-text"), STUDY.instructions);
  const given = /^#p=(.*)$/.exec(location.hash);
  if (given && !VALID.test(given[1])) { show("damaged"); return; }
  const before = stored(KEPT);
  arrive(given ? given[1] : VALID.test(before || "") ? before : fresh());
}

async function arrive(id) {
  become(id);
  await known();
  if (nextNumber() === sheet.length) finish();
  else if (nextNumber() > 0 || stored(`${KEPT}-${id}-agreed`)) instruct();
  else { at("agree").checked = false; at("begin").disabled = true; show("consent"); }
}

async function instruct() {
  const practice = sheet.filter(({ trial }) => "right" in trial).length;
  const started = nextNumber() > 0;
  at("practice-note").hidden = practice === 0 || started;
  at("practice-count").textContent = practice === 1 ? "one question" : `${practice} questions`;
  at("link").textContent = address();
  at("link").hidden = at("link-note").hidden = !STUDY.server;
  at("start").textContent = started ? "Go on" : "Start";
  at("start").disabled = true;
  show("instructions");
  try {
    await loaded();
    at("loading").textContent = "";
    at("start").disabled = false;
  } catch (error) {
    at("loading").textContent = "A picture could not be loaded. Please load this page again.";
  }
}

function advance() {
  const number = nextNumber();
  if (number === sheet.length) { finish(); return; }
  const previous = number > 0 ? sheet[number - 1].trial : null;
  if (previous && "right" in previous && !("right" in sheet[number].trial) && at("trial").hidden === false) show("begin-main");
  else ask(number);
}

async function ask(number) {
  const { trial, flipped } = sheet[number];
  const practice = sheet.filter((one) => "right" in one.trial).length;
  const [done, all] = number < practice ? [number, practice] : [number - practice, sheet.length - practice];
  at("count").textContent = `${number < practice ? "Practice" : "Question"} ${done + 1} of ${all}`;
  at("progress").max = all;
  at("progress").value = done;
  at("question").textContent = trial.text;
  at("left-image").src = `images/${trial.images[flipped]}`;
  at("right-image").src = `images/${trial.images[1 - flipped]}`;
  const same = trial.question === "same";
  at("left").lastElementChild.textContent = same ? "Yes, the same" : "Left";
  at("right").lastElementChild.textContent = same ? "No, not the same" : "Right";
  at("feedback").textContent = "";
  at("next").hidden = true;
  for (const side of ["left", "right"]) { at(side).disabled = false; at(side).classList.remove("chosen"); }
  show("trial");
  await Promise.all([at("left-image").decode(), at("right-image").decode()]).catch(() => {});
  shownAt = performance.now();
  waiting = true;
}

function answer(side) {
  const ms = Math.round(performance.now() - shownAt);
  if (!waiting || ms < PAUSE) return;
  waiting = false;
  const number = nextNumber();
  const { trial, flipped } = sheet[number];
  lines[number] = { study: STUDY.id, participant, number, trial: trial.id, answer: side, ms };
  keep();
  send();
  if (!("right" in trial)) { advance(); return; }
  const chosen = side === "right" ? 1 : 0;
  const right = (trial.question === "same" ? chosen : chosen ^ flipped) === trial.right;
  const other = side === "right" ? "left" : "right";
  for (const one of ["left", "right"]) at(one).disabled = true;
  at(side).classList.add("chosen");
  at("feedback").className = right ? "good" : "bad";
  at("feedback").textContent = right ? "✓ That is right."
    : trial.question === "same" ? `✗ No: ${trial.right === 0 ? "both show the same one." : "these are two different ones."}`
      : `✗ No: it is the picture on the ${other} side.`;
  at("next").hidden = false;
  at("next").focus();
}

async function finish() {
  waiting = false;
  show("finished");
  at("finished-text").textContent = STUDY.server ? "Your answers are being sent …" : "";
  const saved = await send();
  at("retry").hidden = saved || !STUDY.server;
  at("hand-in").hidden = Boolean(STUDY.server && saved);
  if (STUDY.server && saved) {
    at("finished-text").textContent = "Your answers have been saved. You can close this page.";
    return;
  }
  at("finished-text").textContent = STUDY.server
    ? "Your answers could not be sent. Try again, or save them as a file and send it."
    : "You have answered all questions. One last step: please send your answers.";
  const name = `answers-${participant}.jsonl`;
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  at("download").download = name;
  at("download").href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  if (!STUDY.mail) { at("send").textContent = `Send the file ${name} to the person who invited you.`; return; }
  const body = `Please attach the file ${name}, which you have just saved (usually in the folder Downloads), and send this mail.\n\n`;
  const mail = document.createElement("a");
  mail.href = `mailto:${STUDY.mail}?subject=${encodeURIComponent(`Answers ${STUDY.id}`)}&body=${encodeURIComponent(body)}`;
  mail.textContent = "Write a mail";
  at("send").replaceChildren(mail, ` to ${STUDY.mail}, attach the file ${name} and send it.`);
}

at("agree").addEventListener("change", () => { at("begin").disabled = !at("agree").checked; });
at("begin").addEventListener("click", () => { store(`${KEPT}-${participant}-agreed`, "yes"); instruct(); });
at("start").addEventListener("click", () => advance());
at("go-on").addEventListener("click", () => ask(nextNumber()));
at("next").addEventListener("click", () => advance());
at("left").addEventListener("click", () => answer("left"));
at("right").addEventListener("click", () => answer("right"));
at("retry").addEventListener("click", () => finish());
at("another").addEventListener("click", () => arrive(fresh()));
at("anew").addEventListener("click", () => arrive(fresh()));
document.addEventListener("keydown", (event) => {
  if (at("trial").hidden || event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const side = { ArrowLeft: "left", ArrowRight: "right" }[event.key];
  if (side) { event.preventDefault(); answer(side); }
});
window.addEventListener("hashchange", begin); // a participant's link, opened in a tab that shows the study already
begin();
