// server.js - the view of the server: figures of /metrics, read each second while the view is open.

import { make, at } from "./dom.js";
import { get } from "./client.js";

const KEPT = 120; // readings per curve

// Return {name: sum over labels} of Prometheus' text format.
export function parse(text) {
  const out = {};
  for (const line of text.split("\n")) {
    const m = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)/.exec(line);
    if (m) out[m[1]] = (out[m[1]] || 0) + Number(m[3]);
  }
  return out;
}

// A counter of a model that was unloaded disappears; the rate is then not negative.
const rate = (name) => (now, before, s) => (before ? Math.max(0, (now[name] || 0) - (before[name] || 0)) / s : 0);
const value = (name) => (now) => now[name] || 0;
const share = (a, b) => (now, before) => {
  const n = (now[b] || 0) - (before?.[b] || 0);
  return n > 0 ? ((now[a] || 0) - (before?.[a] || 0)) / n : null;
};
const percent = (v) => `${(100 * v).toFixed(1)} %`;
const plain = (v) => (v >= 100 ? v.toFixed(0) : v.toFixed(1));
const whole = (v) => v.toFixed(0);
const ms = (v) => `${(1000 * v).toFixed(v < 0.1 ? 1 : 0)} ms`;

// A row has a title, a function of two readings and the seconds between them, and a format. null
// keeps the last figure.
const FIGURES = [
  ["Generated tokens per second", rate("vllm:generation_tokens_total"), plain],
  ["Prompt tokens per second", rate("vllm:prompt_tokens_total"), plain],
  ["Requests running", value("vllm:num_requests_running"), whole],
  ["Requests waiting", value("vllm:num_requests_waiting"), whole],
  ["KV cache in use", value("vllm:kv_cache_usage_perc"), percent],
  ["Prompt tokens found in the cache", share("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"), percent],
  ["Time to first token", share("vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds_count"), ms],
  ["Time between tokens", share("vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count"), ms],
  ["Engine busy", value("quoth:engine_utilization"), percent],
  ["Memory bandwidth used", value("quoth:memory_bandwidth_utilization"), percent],
  ["Resident memory", (now) => (now.process_resident_memory_bytes || 0) / 2 ** 20, (v) => `${v.toFixed(0)} MiB`],
  ["Open connections", value("quoth:http_connections"), whole],
];

const SVG = "http://www.w3.org/2000/svg";
let tiles = null, before = null, beforeTime = 0, timer = 0;

function tile([title]) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${KEPT - 1} 30`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const curve = svg.appendChild(document.createElementNS(SVG, "polyline"));
  const text = make("p", {}, "–");
  at("tiles").append(make("section", { className: "tile", "aria-label": title }, make("h3", {}, title), text, svg));
  return { text, curve, values: [] };
}

function update(t, v, format) {
  if (v === null) v = t.values.length ? t.values[t.values.length - 1] : null;
  if (v === null) return;
  t.values.push(v);
  if (t.values.length > KEPT) t.values.shift();
  const most = Math.max(...t.values, 1e-9), first = KEPT - t.values.length;
  t.curve.setAttribute("points", t.values.map((y, i) => `${first + i},${(29 - (28 * y) / most).toFixed(2)}`).join(" "));
  t.text.textContent = format(v);
}

async function read() {
  try {
    const now = parse(await (await get("/metrics")).text()), time = performance.now();
    tiles.forEach((t, i) => update(t, FIGURES[i][1](now, before, (time - beforeTime) / 1000), FIGURES[i][2]));
    if (at("server-line").dataset.error) at("server-line").textContent = at("server-line").dataset.error = "";
    [before, beforeTime] = [now, time];
  } catch (e) {
    at("server-line").textContent = at("server-line").dataset.error = `no figures: ${e.message}`;
  }
}

async function describe() {
  try {
    const version = (await (await get("/version")).json()).version;
    const models = (await (await get("/v1/models")).json()).data;
    const names = models.map((m) => `${m.id} (${m.meta ? `${(m.meta.n_params / 1e6).toFixed(0)} million parameters, context ${m.max_model_len}` : m.status.value})`);
    at("server-line").textContent = `quoth ${version}: ${names.join(", ")}`;
  } catch { /* read() reports the failure */ }
}

export function show() {
  tiles = tiles || FIGURES.map(tile);
  clearInterval(timer);
  timer = setInterval(read, 1000);
  describe();
  read();
}
export function hide() {
  clearInterval(timer);
  before = null;
}
