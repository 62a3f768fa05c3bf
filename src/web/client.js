// client.js - requests to this server: models, metrics, and streams of chat completions.

import { key, NUMBERS } from "./store.js";

function headers() {
  return key() ? { Authorization: `Bearer ${key()}` } : {};
}

// Return the answer of a GET. Throw an Error with the server's message after a failure.
export async function get(path) {
  const r = await fetch(path, { headers: headers() });
  if (!r.ok) throw await failure(r);
  return r;
}

async function failure(r) {
  let text = `HTTP ${r.status}`;
  try { text = (await r.json()).error.message || text; } catch { /* the body has another form */ }
  const e = new Error(text);
  e.status = r.status;
  return e;
}

// Return the messages of a branch in the form of chat completions.
export function messages(nodes, system) {
  const out = system ? [{ role: "system", content: system }] : [];
  for (const n of nodes) {
    if (n.role === "tool") { out.push({ role: "tool", tool_call_id: n.call_id, content: n.text }); continue; }
    const m = { role: n.role, content: n.text };
    if (n.thinking) m.reasoning_content = n.thinking;
    if (n.calls?.length) m.tool_calls = n.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
    out.push(m);
  }
  return out;
}

// Return the body of a request. The server's default is used for a setting that is not given.
export function body(model, nodes, s) {
  const b = { model, messages: messages(nodes, s.system), stream: true, stream_options: { include_usage: true } };
  for (const name of NUMBERS) if (typeof s[name] === "number") b[name] = s[name];
  if (s.tools) b.tools = s.tools;
  return b;
}

// Yield the objects of an event stream.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trim()).join("\n");
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

// Send the request and call on(delta) per piece: {text, thinking, calls, usage, finish}. Throw an
// Error after a failure, also after a failure inside the stream.
export async function stream(request, signal, on) {
  const r = await fetch("/v1/chat/completions", { method: "POST", signal, headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(request) });
  if (!r.ok) throw await failure(r);
  for await (const e of events(r.body)) {
    if (e.error) throw new Error(e.error.message || "the server ended the answer");
    const c = e.choices?.[0];
    const d = c?.delta || {};
    on({ text: d.content || "", thinking: d.reasoning_content || d.reasoning || "", calls: d.tool_calls || [], usage: e.usage, finish: c?.finish_reason });
  }
}
