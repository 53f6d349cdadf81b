// How pages ask the server: each tab by a name of its own, errors as one line, and the place in the queue while it waits.
"use strict";
cfgen.client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const A_WHILE = 5000; // ms
cfgen.Refused = class extends Error {
  constructor(text, argument, superseded) { super(text); this.argument = argument; this.superseded = superseded; }
};

cfgen.ask = async (address, { body, file, signal, waiting } = {}) => {
  const headers = { "X-Client": cfgen.client };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method: body === undefined && !file ? "GET" : "POST", headers, body: file || (body && JSON.stringify(body)), signal };
  const since = performance.now();
  const timer = waiting && setInterval(async () => {
    const told = await fetch("/api/queue", { headers }).then((answer) => answer.json()).catch(() => ({}));
    waiting(told.position ? `Waiting: ${told.position} ${told.position === 1 ? "request comes" : "requests come"} first.` : performance.now() - since < A_WHILE ? "Working …" : "Working … The first time, images may have to be read or drawn, which can take minutes.");
  }, 500);
  try {
    const answer = await fetch(address, options);
    const found = await answer.json().catch(() => ({ error: `the server answered with code ${answer.status}` }));
    if (!answer.ok) throw new cfgen.Refused(found.error, found.argument, found.superseded);
    return found;
  } catch (error) {
    if (error instanceof TypeError) throw new cfgen.Refused("the server cannot be reached; is cfgen app still running?");
    throw error;
  } finally {
    clearInterval(timer);
    if (waiting) waiting("");
  }
};

// Shows an error in the page's place for them; what was given up on purpose is none.
cfgen.tell = (error) => {
  const place = document.getElementById("message");
  if (error && (error.name === "AbortError" || error.superseded)) return;
  place.textContent = error ? error.message : "";
  place.hidden = !error;
  if (error) place.scrollIntoView({ block: "nearest" }); // the button may be far below
};

// The model that all pages speak of: chosen on one, remembered by the others through the address.
cfgen.modelChoice = (opened) => {
  const select = document.getElementById("model");
  const wanted = new URLSearchParams(location.search).get("model");
  if (wanted && Array.from(select.options).some((one) => one.value === wanted)) select.value = wanted;
  const open = () => {
    history.replaceState(null, "", `${location.pathname}?model=${encodeURIComponent(select.value)}`);
    for (const link of document.querySelectorAll(".top nav a")) link.search = `?model=${encodeURIComponent(select.value)}`;
    opened(select.value);
  };
  select.addEventListener("change", open);
  open();
};
