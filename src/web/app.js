// app.js - the page: a list of conversations, messages of the open conversation, and settings.
//
//   form --send--> add user node --answer--> stream --pieces--> node and its element
//   edit, regenerate --> a sibling node; the earlier branch remains
//
// store.js keeps the tree, client.js sends requests, markdown.js formats answers, and server.js
// shows the view of the server.

import { make, at, button, appendText } from "./dom.js";
import { Renderer, render } from "./markdown.js";
import * as store from "./store.js";
import * as client from "./client.js";
import * as server from "./server.js";

let all = []; // conversations
let now = null; // the conversation on the page
let running = null; // {abort, node} of the answer in progress
let settings = store.settings();

// ---- messages ----

const NAMES = { user: "You", assistant: "Model", tool: "Tool result" };

function folded(label, open = false) {
  const d = make("details", { open }, make("summary", {}, label));
  return d;
}

function thinkingPart(text) {
  const d = folded("Thinking"), body = make("div", { className: "plain" });
  appendText(body, text);
  d.append(body);
  d.body = body;
  return d;
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function callPart(call) {
  return make("details", {}, make("summary", {}, `Tool call: ${call.name}`), make("pre", { tabIndex: 0, "aria-label": "Arguments" }, pretty(call.arguments)));
}

function save() {
  store.save(now).catch((e) => status(`not saved: ${e.message}`));
}

function status(text) {
  at("status").textContent = text;
}

// Replace a message's text by a form to edit it. Saving makes a new branch.
function edit(node, article) {
  const box = make("textarea", { value: node.text, rows: Math.min(12, node.text.split("\n").length + 1), "aria-label": "Edited message" });
  const done = button("Save and send", () => {
    if (running || !box.value.trim()) return;
    store.add(now, node.parent, { role: "user", text: box.value });
    draw();
    answer();
  });
  const form = make("div", {}, box, make("div", { className: "row" }, done, button("Cancel", () => { draw(); focusAction(node, "Edit"); })));
  article.querySelector(".text").replaceWith(form);
  article.querySelector("footer").hidden = true;
  box.focus();
}

function focusAction(node, name) {
  [...document.querySelectorAll(`#log [data-id="${node.id}"] footer button`)].find((b) => b.textContent === name)?.focus();
}

// Return buttons to move between the versions of a message.
function versions(node) {
  const same = store.siblings(now, node), i = same.indexOf(node);
  if (same.length < 2) return [];
  const move = (by, name) => button(name === "previous" ? "‹" : "›", () => {
    store.select(now, same[i + by]);
    save();
    draw();
    const moves = [...document.querySelectorAll(`#log [data-id="${same[i + by].id}"] footer button[aria-label]:enabled`)];
    (moves.find((b) => b.ariaLabel.includes(name)) || moves[0])?.focus();
  }, { ariaLabel: `Show the ${name} version`, disabled: !same[i + by] || !!running });
  return [move(-1, "previous"), make("span", {}, `${i + 1} of ${same.length}`), move(1, "next")];
}

function actions(node, article) {
  const f = make("footer");
  f.append(button("Copy", async () => {
    try { await navigator.clipboard.writeText(node.text); status("copied"); } catch { status("the browser does not allow copying here"); }
  }));
  if (node.role === "user") f.append(button("Edit", () => { if (!running) edit(node, article); }));
  if (node.role === "assistant") f.append(button("Regenerate", () => {
    if (running) return;
    now.leaf = node.parent;
    draw();
    answer();
  }));
  f.append(...versions(node));
  if (node.figures) f.append(make("span", { className: "figures" }, node.figures));
  return f;
}

// Return a form for the results of calls that end the branch.
function results(node) {
  const boxes = node.calls.map((c) => make("textarea", { rows: 2, "aria-label": `Result of ${c.name}` }));
  const send = button("Send results", () => {
    if (running) return;
    node.calls.forEach((c, i) => store.add(now, now.leaf, { role: "tool", text: boxes[i].value, call_id: c.id }));
    draw();
    answer();
  });
  return make("div", { className: "results" }, ...node.calls.map((c, i) => make("label", {}, `Result of ${c.name} `, boxes[i])), send);
}

function message(node) {
  const article = make("article", { className: `message ${node.role}`, "data-id": node.id }, make("h3", {}, NAMES[node.role]));
  if (node.thinking) article.append(thinkingPart(node.thinking));
  const text = make("div", { className: "text" });
  if (node.role === "assistant") render(text, node.text);
  else text.textContent = node.text;
  article.append(text);
  for (const c of node.calls || []) article.append(callPart(c));
  if (node.error) article.append(make("p", { className: "error", role: "alert" }, node.error));
  article.append(actions(node, article));
  return article;
}

// Draw the branch of the conversation.
function draw() {
  const nodes = store.branch(now);
  at("title").textContent = now.title;
  at("log").replaceChildren(...nodes.map(message));
  const last = nodes[nodes.length - 1];
  if (last?.calls?.length && !running) at("log").append(results(last));
  at("log").scrollTop = at("log").scrollHeight;
  drawList();
}

function drawList() {
  at("list").replaceChildren(...all.map((c) => make("li", {}, button(c.title, () => open(c), { "aria-current": String(c === now) }))));
}

function open(c) {
  if (running) running.abort.abort();
  now = c;
  closeDrawer();
  draw();
}

// ---- answers ----

const PART = 6000; // characters drawn in one frame

// Return the rate of n tokens that arrived in s seconds. null below one second: the pieces of a tool
// call arrive together, after the call is complete.
function rate(n, s) {
  return s < 1 ? null : `${(n / s).toFixed(1)} per second`;
}

// An answer in progress. It adds each piece to its node, and the pending pieces to the page once per
// frame.
class Answer {
  constructor(node) {
    this.node = node;
    this.begin = performance.now();
    this.text = this.thinking = "";
    this.frame = 0;
    this.pause = 0; // time before which no further frame is drawn
    node.calls = [];
    this.article = message(node);
    this.article.querySelector("footer").hidden = true;
    this.renderer = new Renderer(this.article.querySelector(".text"));
    at("log").append(this.article);
    at("log").setAttribute("aria-busy", "true");
    at("log").scrollTop = at("log").scrollHeight;
  }

  add(d) {
    if (d.text || d.thinking || d.calls.length) this.first = this.first || performance.now();
    this.text += d.text;
    this.node.text += d.text;
    if (d.thinking) {
      this.thinking += d.thinking;
      this.node.thinking = (this.node.thinking || "") + d.thinking;
    }
    for (const c of d.calls) this.addCall(c);
    if (d.usage) this.usage = d.usage;
    if (d.finish) this.node.finish = d.finish;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  addCall(c) {
    const call = (this.node.calls[c.index ?? 0] ||= { id: "", name: "", arguments: "" });
    call.id ||= c.id || "";
    call.name += c.function?.name || "";
    call.arguments += c.function?.arguments || "";
  }

  // Draw a part of the pending text. Drawing takes at most a fifth of the time.
  draw() {
    this.frame = 0;
    const start = performance.now();
    if (start < this.pause) {
      this.frame = requestAnimationFrame(() => this.draw());
      return;
    }
    const log = at("log"), follows = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    if (this.thinking) {
      if (!this.thoughts) this.article.querySelector(".text").before((this.thoughts = thinkingPart("")));
      appendText(this.thoughts.body, this.thinking.slice(0, PART));
      this.thinking = this.thinking.slice(PART);
    }
    if (this.text) this.renderer.append(this.text.slice(0, PART));
    this.text = this.text.slice(PART);
    if (follows) log.scrollTop = log.scrollHeight;
    this.pause = performance.now() + 4 * (performance.now() - start);
    if (this.text || this.thinking) this.frame = requestAnimationFrame(() => this.draw());
    else this.drawn?.();
  }

  // Wait until the whole text is on the page, and complete the node.
  async end(error) {
    if (this.frame) await new Promise((resolve) => { this.drawn = resolve; });
    this.renderer.end();
    const s = (performance.now() - (this.first || this.begin)) / 1000, n = this.usage?.completion_tokens;
    this.node.calls = this.node.calls.filter(Boolean);
    if (error) this.node.error = error;
    if (n) this.node.figures = [`${n} tokens`, rate(n, s), this.first && `first after ${((this.first - this.begin) / 1000).toFixed(2)} s`, this.node.finish === "length" && "cut at the limit"].filter(Boolean).join(", ");
    at("log").setAttribute("aria-busy", "false");
  }
}

function setRunning(r) {
  running = r;
  at("send").hidden = !!r;
  at("stop").hidden = !r;
  if (r) status("generating");
}

// Answer the branch's last message.
async function answer() {
  const c = now, nodes = store.branch(c), abort = new AbortController();
  const node = store.add(c, c.leaf, { role: "assistant" });
  document.querySelector("#log .results")?.remove();
  setRunning({ abort, node });
  const a = new Answer(node);
  let error = "";
  try {
    await client.stream(client.body(at("model").value, nodes, settings), abort.signal, (d) => a.add(d));
  } catch (e) {
    if (!abort.signal.aborted) error = e.message;
    if (e.status === 401) error += " (Settings: API key)";
  }
  await a.end(error);
  setRunning(null);
  status(error ? "failed" : abort.signal.aborted ? "stopped" : "complete");
  if (c.title === "New conversation") c.title = store.branch(c)[0].text.trim().split("\n")[0].slice(0, 60) || c.title;
  c.updated = Date.now();
  store.save(c).catch((e) => status(`not saved: ${e.message}`));
  if (c === now) finish(a);
}

// Replace only the last message, so that a long conversation is not drawn again.
function finish(a) {
  const focus = document.activeElement === at("stop") || document.activeElement === document.body;
  a.article.querySelector("footer").replaceWith(actions(a.node, a.article));
  for (const c of a.node.calls) a.article.querySelector("footer").before(callPart(c));
  if (a.node.error) a.article.querySelector("footer").before(make("p", { className: "error", role: "alert" }, a.node.error));
  if (a.node.calls.length) at("log").append(results(a.node));
  for (const b of document.querySelectorAll("#log footer")) if (b.parentElement !== a.article) redraw(b);
  at("title").textContent = now.title;
  drawList();
  if (focus) at("input").focus();
}

// Draw the footer again, because version buttons were disabled during the answer.
function redraw(footer) {
  const node = store.find(now, footer.parentElement.dataset.id);
  if (node && store.siblings(now, node).length > 1) footer.replaceWith(actions(node, footer.parentElement));
}

function send() {
  const text = at("input").value;
  if (running || !text.trim()) return;
  if (!all.includes(now)) all.unshift(now);
  const node = store.add(now, now.leaf, { role: "user", text });
  at("input").value = "";
  document.querySelector("#log .results")?.remove();
  at("log").append(message(node));
  answer();
}

// ---- dialogs ----

// Resolve to the text, or to true for a question without a text; null if the user cancels.
function question(title, yes, text) {
  at("question-title").textContent = title;
  at("question-yes").textContent = yes;
  at("question-label").hidden = text === undefined;
  at("question-text").value = text ?? "";
  at("question").returnValue = "";
  at("question").showModal();
  return new Promise((resolve) => {
    at("question").addEventListener("close", () => {
      resolve(at("question").returnValue !== "yes" ? null : text === undefined ? true : at("question-text").value.trim());
    }, { once: true });
  });
}

function openSettings() {
  at("set-system").value = settings.system || "";
  for (const name of store.NUMBERS) at(`set-${name}`).value = settings[name] ?? "";
  at("set-tools").value = settings.tools ? JSON.stringify(settings.tools, null, 1) : "";
  at("set-key").value = store.key();
  at("set-theme").value = settings.theme || "";
  at("tools-error").textContent = "";
  at("settings").returnValue = "";
  at("settings").showModal();
}

// Return the tools; undefined if there are none. Throw an Error with the reason if the text is
// invalid.
function tools() {
  const text = at("set-tools").value.trim();
  if (!text) return undefined;
  const v = JSON.parse(text);
  if (!Array.isArray(v) || !v.every((t) => t && typeof t === "object")) throw new Error("expected a list of objects");
  return v.length ? v : undefined;
}

function takeSettings(event) {
  if (event.submitter?.value !== "save") return;
  let list;
  try { list = tools(); } catch (e) {
    event.preventDefault();
    at("tools-error").textContent = `Tools: ${e.message}`;
    at("set-tools").focus();
    return;
  }
  settings = { system: at("set-system").value, tools: list, theme: at("set-theme").value, model: settings.model };
  for (const name of store.NUMBERS) if (at(`set-${name}`).value !== "") settings[name] = Number(at(`set-${name}`).value);
  store.saveSettings(settings);
  store.saveKey(at("set-key").value);
  theme();
  readModels();
}

function theme() {
  if (settings.theme) document.documentElement.dataset.theme = settings.theme;
  else delete document.documentElement.dataset.theme;
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const a = make("a", { href: url, download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function importFile(file) {
  try {
    const list = store.parse(await file.text());
    for (const c of list) {
      all.unshift(c);
      await store.save(c);
    }
    if (list.length) open(all[0]);
    status(`imported ${list.length}`);
  } catch (e) {
    status(`not imported: ${e.message}`);
  }
}

// ---- the page around the messages ----

function closeDrawer() {
  at("side").classList.remove("open");
  at("drawer").setAttribute("aria-expanded", "false");
}

function view(name) {
  at("chat").hidden = name !== "chat";
  at("server").hidden = name !== "server";
  at("show-chat").setAttribute("aria-pressed", String(name === "chat"));
  at("show-server").setAttribute("aria-pressed", String(name === "server"));
  if (name === "server") server.show();
  else server.hide();
}

async function readModels() {
  try {
    const data = (await (await client.get("/v1/models")).json()).data;
    at("model").replaceChildren(...data.map((m) => make("option", { value: m.id }, m.id)));
    if (data.some((m) => m.id === settings.model)) at("model").value = settings.model;
    status("");
  } catch (e) {
    status(e.status === 401 ? "the server requires an API key: Settings" : `no connection: ${e.message}`);
  }
}

function begin() {
  now = store.create();
  closeDrawer();
  draw();
  at("input").focus();
}

function listen() {
  at("form").addEventListener("submit", (e) => { e.preventDefault(); send(); });
  at("input").addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && running && !document.querySelector("dialog[open]")) running.abort.abort();
  });
  at("stop").addEventListener("click", () => running?.abort.abort());
  at("new").addEventListener("click", () => { if (running) running.abort.abort(); begin(); });
  at("drawer").addEventListener("click", () => {
    const shown = at("side").classList.toggle("open");
    at("drawer").setAttribute("aria-expanded", String(shown));
    if (shown) at("new").focus();
  });
  at("show-chat").addEventListener("click", () => view("chat"));
  at("show-server").addEventListener("click", () => view("server"));
  at("open-settings").addEventListener("click", openSettings);
  at("settings").querySelector("form").addEventListener("submit", takeSettings);
  at("model").addEventListener("change", () => { settings.model = at("model").value; store.saveSettings(settings); });
  at("rename").addEventListener("click", async () => {
    const title = await question("Rename the conversation", "Rename", now.title);
    if (!title) return;
    now.title = title;
    save();
    at("title").textContent = title;
    drawList();
  });
  at("export").addEventListener("click", () => download("conversation.json", store.format([now])));
  at("delete").addEventListener("click", async () => {
    if (!(await question(`Delete "${now.title}"?`, "Delete"))) return;
    if (running) running.abort.abort();
    all = all.filter((c) => c !== now);
    await store.remove(now);
    if (all.length) open(all[0]);
    else begin();
  });
  at("import").addEventListener("click", () => at("import-file").click());
  at("import-file").addEventListener("change", () => {
    if (at("import-file").files[0]) importFile(at("import-file").files[0]);
    at("import-file").value = "";
  });
}

theme();
listen();
all = await store.load().catch(() => []);
readModels();
begin();
