// store.js - conversations, in the browser's own database (IndexedDB), and settings, in its local
// storage. The API key is in the tab's session storage. No conversation is sent to the server for
// storage.
//
// A conversation is a tree of messages. `leaf` is the last message of the branch on the page.
//   {id, title, created, updated, leaf, nodes: [{id, parent, role, text, thinking, calls, ...}]}

let database = null;

function open() {
  return new Promise((resolve) => {
    const request = indexedDB.open("quoth", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null); // a private window may have no database
  });
}

function run(mode, fn) {
  return new Promise((resolve, reject) => {
    if (!database) { resolve([]); return; }
    const request = fn(database.transaction("conversations", mode).objectStore("conversations"));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// Return all conversations, latest first.
export async function load() {
  database = await open().catch(() => null);
  return (await run("readonly", (s) => s.getAll())).filter(isValid).sort((a, b) => b.updated - a.updated);
}
export const save = (c) => run("readwrite", (s) => s.put(structuredClone(c)));
export const remove = (c) => run("readwrite", (s) => s.delete(c.id));

const id = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");

export function create() {
  const now = Date.now();
  return { id: id(), title: "New conversation", created: now, updated: now, leaf: null, nodes: [] };
}

// Append a message after `parent` (null: as first message), and make it the end of the branch.
export function add(c, parent, fields) {
  const node = { id: id(), parent, role: "user", text: "", ...fields };
  c.nodes.push(node);
  c.leaf = node.id;
  c.updated = Date.now();
  return node;
}

export const find = (c, id) => c.nodes.find((n) => n.id === id) || null;

// Return the messages of the branch, oldest first.
export function branch(c, leaf = c.leaf) {
  const by = new Map(c.nodes.map((n) => [n.id, n]));
  const out = [];
  for (let n = by.get(leaf); n && out.length <= c.nodes.length; n = by.get(n.parent)) out.unshift(n);
  return out;
}

export const siblings = (c, node) => c.nodes.filter((n) => n.parent === node.parent);

// Show the branch that contains `node` on the page, up to its latest message.
export function select(c, node) {
  for (let child = node; child; child = c.nodes.filter((n) => n.parent === node.id).pop()) node = child;
  c.leaf = node.id;
}

const ROLES = ["user", "assistant", "tool"];
const isText = (v) => v === undefined || v === null || typeof v === "string";

function isCall(c) {
  return c && typeof c === "object" && typeof c.id === "string" && typeof c.name === "string" && typeof c.arguments === "string";
}

function isNode(n) {
  return n && typeof n === "object" && typeof n.id === "string" && ROLES.includes(n.role) && typeof n.text === "string" &&
    isText(n.parent) && isText(n.thinking) && isText(n.error) && isText(n.call_id) && isText(n.figures) &&
    (n.calls === undefined || (Array.isArray(n.calls) && n.calls.every(isCall)));
}

// Return true if a value has the form of a conversation. Imported files may have any content.
export function isValid(c) {
  return c && typeof c === "object" && typeof c.id === "string" && typeof c.title === "string" && Array.isArray(c.nodes) &&
    c.nodes.every(isNode) && new Set(c.nodes.map((n) => n.id)).size === c.nodes.length && isText(c.leaf);
}

// Return the conversations of an exported file. Throw an Error with the reason if the file is
// damaged.
export function parse(text) {
  let value;
  try { value = JSON.parse(text); } catch (e) { throw new Error(`the file is not JSON: ${e.message}`); }
  const list = value && value.quoth === 1 ? value.conversations : null;
  if (!Array.isArray(list)) throw new Error("the file is not an export of this page");
  if (!list.every(isValid)) throw new Error("a conversation of the file is damaged");
  return list.map((c) => ({ id: id(), title: c.title.slice(0, 200), created: Number(c.created) || Date.now(), updated: Date.now(), leaf: c.leaf ?? null, nodes: c.nodes }));
}

export const format = (list) => JSON.stringify({ quoth: 1, conversations: list }, null, 1);

// ---- settings ----

export const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

export function settings() {
  try { return JSON.parse(localStorage.getItem("quoth-settings")) || {}; } catch { return {}; }
}
export const saveSettings = (s) => localStorage.setItem("quoth-settings", JSON.stringify(s));
export const key = () => sessionStorage.getItem("quoth-key") || "";
export const saveKey = (k) => sessionStorage.setItem("quoth-key", k);
