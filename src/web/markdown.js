// markdown.js - Markdown of answers as elements: headings, lists, tables, code, quotes, and inline
// marks (CommonMark and GitHub's tables and strikethrough). HTML is text. Images are links, because
// the page requests nothing from other hosts.
//
// A Renderer takes text in pieces. All blocks except the last block are final. Items of lists and rows
// of tables are blocks. Therefore the time of an update depends on one block, not on the whole text.

import { make, button, appendText } from "./dom.js";

const BLOCK_MAX = 2500; // maximum characters of a paragraph; the rest is a further paragraph

// ---- inline ----

const SCHEME = /^(https?:\/\/|mailto:)/i;

function link(url, children) {
  if (!SCHEME.test(url)) return make("span", {}, ...children);
  return make("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

// Return the end of the run of `mark` that closes the run before `from`; -1 if none.
function closing(s, mark, from) {
  for (let i = s.indexOf(mark, from); i >= 0; i = s.indexOf(mark, i + 1)) {
    if (s[i - 1] === "\\" || /\s/.test(s[i - 1])) continue;
    if (mark.length === 1 && (s[i + 1] === mark || s[i - 1] === mark)) continue;
    return i;
  }
  return -1;
}

const MARKS = [["***", "strong"], ["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

// Return [element, end] of the marked text at s[i]; null if the characters are text.
function marked(s, i, depth) {
  for (const [mark, tag] of MARKS) {
    if (!s.startsWith(mark, i) || /\s/.test(s[i + mark.length] || " ")) continue;
    if (mark[0] === "_" && /\w/.test(s[i - 1] || "")) continue;
    const end = closing(s, mark, i + mark.length + 1);
    if (end < 0 || (mark[0] === "_" && /\w/.test(s[end + mark.length] || ""))) continue;
    let e = make(tag, {}, ...inline(s.slice(i + mark.length, end), depth + 1));
    if (mark === "***") e = make("em", {}, e);
    return [e, end + mark.length];
  }
  return null;
}

// Return [element, end] of a code span, link, image or address at s[i]; null if none.
function special(s, i, depth) {
  if (s[i] === "`") {
    const mark = /^`+/.exec(s.slice(i))[0];
    let end = s.indexOf(mark, i + mark.length);
    while (end >= 0 && s[end + mark.length] === "`") end = s.indexOf(mark, end + mark.length + 1);
    if (end < 0) return [mark, i + mark.length];
    return [make("code", {}, s.slice(i + mark.length, end).replace(/^ (.*) $/, "$1")), end + mark.length];
  }
  const near = s.slice(i, i + 2100);
  let m = /^(!?)\[((?:[^\[\]\\]|\\.){0,1000})\]\(\s*<?([^()\s<>]{0,1000})>?(?:\s+"[^"]{0,200}")?\s*\)/.exec(near);
  if (m) return [link(m[3], m[1] ? [m[2] || m[3]] : inline(m[2], depth + 1)), i + m[0].length];
  m = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,1000})>/i.exec(near) || (/\w/.test(s[i - 1] || "") ? null : /^(https?:\/\/[^\s<>"'`]{1,1000}[^\s<>"'`.,;:!?)\]])/i.exec(near));
  return m ? [link(m[1], [m[1]]), i + m[0].length] : null;
}

// Return elements and texts of one line or paragraph.
export function inline(s, depth = 0) {
  const out = [];
  let text = "";
  for (let i = 0; i < s.length;) {
    const c = s[i];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(s[i + 1] || "")) { text += s[i + 1]; i += 2; continue; }
    const found = depth > 8 ? null : "`[!<h".includes(c) ? special(s, i, depth) : "*_~".includes(c) ? marked(s, i, depth) : null;
    if (!found) { text += c; i++; continue; }
    if (text) out.push(text);
    text = "";
    out.push(found[0]);
    i = found[1];
  }
  if (text) out.push(text);
  return out;
}

// ---- blocks ----

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +(.*)|)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const HEAD = /^ {0,3}(#{1,6}) +(.*?)(?: +#+)? *$/;
const DIVIDER = /^ *\|? *:?-+:? *(\| *:?-+:? *)*\|? *$/;

function cells(line) {
  const out = [""];
  for (let i = 0, code = false; i < line.length; i++) {
    if (line[i] === "\\" && line[i + 1] === "|") { out[out.length - 1] += "|"; i++; continue; }
    if (line[i] === "`") code = !code;
    if (line[i] === "|" && !code) out.push("");
    else out[out.length - 1] += line[i];
  }
  if (!out[0].trim()) out.shift();
  if (out.length && !out[out.length - 1].trim()) out.pop();
  return out.map((c) => c.trim());
}

function begins(line) {
  return FENCE.test(line) || HEAD.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || ITEM.test(line);
}

// The number includes two characters after the last possible place of a split.
const isLong = (line) => line.length >= BLOCK_MAX + 2;

// Split a long line before a word that begins no other kind of block. Return true if the line was
// split.
function splitLong(lines, i) {
  for (let k = isLong(lines[i]) ? BLOCK_MAX : 0; k > BLOCK_MAX / 2; k--) {
    if (!/^ [A-Za-z]/.test(lines[i].slice(k, k + 2))) continue;
    lines.splice(i, 1, lines[i].slice(0, k), lines[i].slice(k + 1));
    return true;
  }
  return false;
}

// Return true if a table begins at lines[i].
function isTable(lines, i) {
  return lines[i].includes("|") && i + 1 < lines.length && DIVIDER.test(lines[i + 1]) && cells(lines[i]).length === cells(lines[i + 1]).length;
}

// Return the block at lines[i] as {type, end, ...}. end: index after its last line. open: true if more
// lines may belong to the block.
function blockAt(lines, i) {
  const line = lines[i];
  if (!line.trim()) return { type: "none", end: i + 1 };
  const fence = FENCE.exec(line);
  if (fence) {
    let end = i + 1;
    const close = new RegExp(`^ {0,3}${fence[2][0]}{${fence[2].length},} *$`);
    while (end < lines.length && !close.test(lines[end])) end++;
    return { type: "code", language: fence[3].trim().split(/\s/)[0], lines: lines.slice(i + 1, end), end: Math.min(end + 1, lines.length), closed: end < lines.length };
  }
  const head = HEAD.exec(line);
  if (head) return { type: "head", level: head[1].length, text: head[2], end: i + 1 };
  if (RULE.test(line)) return { type: "rule", end: i + 1 };
  let end = i + 1;
  if (/^ {0,3}>/.test(line)) {
    while (end < lines.length && lines[end].trim() && (/^ {0,3}>/.test(lines[end]) || !begins(lines[end]))) end++;
    return { type: "quote", lines: lines.slice(i, end).map((l) => l.replace(/^ {0,3}> ?/, "")), end };
  }
  const item = ITEM.exec(line);
  if (item) {
    const indent = item[1].length + item[2].length + 1;
    const inside = (l) => l.length - l.trimStart().length >= Math.min(indent, item[1].length + 2);
    while (end < lines.length && (inside(lines[end]) || !lines[end].trim() || !begins(lines[end]))) {
      if (!lines[end].trim() && !(end + 1 < lines.length && inside(lines[end + 1]) && lines[end + 1].trim())) break;
      end++;
    }
    const rest = lines.slice(i + 1, end).map((l) => l.slice(Math.min(indent, l.length - l.trimStart().length)));
    return { type: "item", ordered: /\d/.test(item[2]), start: parseInt(item[2], 10), lines: [item[3] || "", ...rest], end };
  }
  if (isTable(lines, i))
    return { type: "table", cells: cells(line), align: cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "mid" : "end") : "")), end: i + 2 };
  const split = splitLong(lines, i);
  let n = split ? BLOCK_MAX : line.length;
  while (end < lines.length && lines[end].trim() && !begins(lines[end]) && !isLong(lines[end]) && n < BLOCK_MAX) {
    if (isTable(lines, end)) break;
    n += lines[end++].length;
  }
  return { type: "text", text: lines.slice(i, end).map((l) => l.trimStart().replace(/ {2,}$/, "")).join("\n"), end, split };
}

function codeBlock(b) {
  const code = make("code");
  const copy = button("Copy code", () => navigator.clipboard?.writeText(code.textContent));
  const e = make("div", { className: "block" }, make("header", {}, make("span", {}, b.language || "code"), copy),
    make("pre", { tabIndex: 0, "aria-label": "Code" }, code));
  e.code = code;
  return e;
}

function nested(lines, depth) {
  const holder = document.createDocumentFragment();
  if (depth > 12) holder.append(lines.join("\n"));
  else renderBlocks(holder, lines, depth);
  return holder;
}

function row(tag, texts, align) {
  return make("tr", {}, ...align.map((a, i) => make(tag, { className: a, ...(tag === "th" ? { scope: "col" } : {}) }, ...inline(texts[i] || ""))));
}

// Append the block to `parent`, or to the list or table at the end of `parent`. Return
// [holder, element].
function put(parent, b, depth, previous) {
  if (b.type === "item") {
    const tag = b.ordered ? "OL" : "UL";
    let list = parent.lastElementChild;
    if (!list || list.tagName !== tag || !previous || previous.type !== "item") {
      list = make(tag.toLowerCase());
      if (b.ordered && b.start !== 1) list.start = b.start;
      parent.append(list);
    }
    const task = /^\[([ xX])\] /.exec(b.lines[0]);
    const e = make("li");
    if (task) {
      e.append(make("span", { role: "img", "aria-label": task[1] === " " ? "open" : "done" }, task[1] === " " ? "☐ " : "☑ "));
      b.lines[0] = b.lines[0].slice(4);
    }
    if (b.lines.length === 1) e.append(...inline(b.lines[0]));
    else e.append(nested(b.lines, depth + 1));
    list.append(e);
    return [list, e];
  }
  if (b.type === "row") {
    const body = parent.lastElementChild.querySelector("tbody");
    const e = row("td", b.cells, b.align);
    body.append(e);
    return [body, e];
  }
  let e;
  if (b.type === "code") { e = codeBlock(b); appendText(e.code, b.lines.join("\n")); }
  else if (b.type === "head") e = make(`h${Math.min(6, b.level + 3)}`, {}, ...inline(b.text));
  else if (b.type === "rule") e = make("hr");
  else if (b.type === "quote") e = make("blockquote", {}, nested(b.lines, depth + 1));
  else if (b.type === "table") e = make("div", { className: "table", tabIndex: 0, role: "group", "aria-label": "Table" }, make("table", {}, make("thead", {}, row("th", b.cells, b.align)), make("tbody")));
  else e = make("p", {}, ...inline(b.text));
  parent.append(e);
  return [parent, e];
}

// Return the next block. Lines after a table are its rows.
function next(lines, i, previous) {
  if (previous && (previous.type === "table" || previous.type === "row") && lines[i].includes("|") && lines[i].trim())
    return { type: "row", cells: cells(lines[i]), align: previous.align, end: i + 1 };
  return blockAt(lines, i);
}

function renderBlocks(parent, lines, depth) {
  let previous = null;
  for (let i = 0; i < lines.length;) {
    const b = next(lines, i, previous);
    if (b.type !== "none") put(parent, b, depth, previous);
    if (b.type !== "none" || previous?.type !== "item") previous = b;
    i = b.end;
  }
}

export class Renderer {
  constructor(parent) {
    this.parent = parent;
    this.tail = ""; // text of the blocks that may change
    this.open = []; // [holder, element] of each block that may change
    this.previous = null; // block before the blocks that may change
    this.code = null; // open code block: {element, close}
  }

  append(text) {
    if (this.code) { this.appendCode(text); return; }
    this.tail += text;
    this.render();
  }

  // Remove the elements of the blocks that may change, and the lists that they leave empty.
  removeOpen() {
    for (const [holder, e] of this.open.reverse()) {
      e.remove();
      if (/^[UO]L$/.test(holder.tagName) && !holder.firstChild) holder.remove();
    }
    this.open = [];
  }

  // The last line may be incomplete. A block is final if the complete lines after it end it, or if
  // it is the beginning of a long line.
  render() {
    const lines = this.tail.split("\n");
    let previous = this.previous, first = -1; // first: line of the first block that may change
    this.removeOpen();
    for (let i = 0; i < lines.length;) {
      const b = next(lines, i, previous), last = lines.length - 1;
      if (b.type === "code" && !b.closed && i < last) { this.openCode(lines, i, b, previous); return; }
      const more = b.end < last && (b.type === "item" ? !lines[b.end].trim() : b.type === "text" && lines[b.end].includes("|"));
      const after = more ? b.end + 1 : b.end;
      if (first < 0 && after >= last && !b.split) first = i;
      if (b.type !== "none") {
        const at = put(this.parent, b, 0, previous);
        if (first >= 0) this.open.push(at);
      }
      if (b.type !== "none" || previous?.type !== "item") previous = b;
      if (first < 0) this.previous = previous;
      i = b.end;
    }
    // the blank at the split is missing from a split line, like the line feed at a line's end
    const done = lines.slice(0, Math.max(first, 0)).reduce((n, l) => n + l.length + 1, 0);
    this.tail = first < 0 ? "" : this.tail.slice(done);
  }

  // The opening line is complete, so all blocks before it are final.
  openCode(lines, i, b, previous) {
    const fence = FENCE.exec(lines[i]);
    const [, e] = put(this.parent, { ...b, lines: [] }, 0, previous);
    this.previous = b;
    this.open = [];
    this.code = { element: e, close: new RegExp(`^ {0,3}${fence[2][0]}{${fence[2].length},} *$`) };
    this.tail = "";
    this.mid = this.pending = false;
    this.appendCode(lines.slice(i + 1).join("\n"));
  }

  // A line that may become the closing fence is not drawn before its end. mid: true if the beginning
  // of the last line is on the page.
  appendCode(text) {
    this.tail += text;
    let out = "";
    for (let end = this.tail.indexOf("\n"); end >= 0; end = this.tail.indexOf("\n")) {
      const line = this.tail.slice(0, end);
      this.tail = this.tail.slice(end + 1);
      if (!this.mid && this.code.close.test(line)) {
        this.putCode(out);
        this.code = null;
        this.render();
        return;
      }
      out += line + "\n";
      this.mid = false;
    }
    if (this.mid || !/^ {0,3}(`*|~*) *$/.test(this.tail)) {
      this.mid = this.mid || this.tail !== "";
      out += this.tail;
      this.tail = "";
    }
    this.putCode(out);
  }

  // A code block ends without a line break.
  putCode(text) {
    if (this.pending) text = "\n" + text;
    this.pending = text.endsWith("\n");
    if (this.pending) text = text.slice(0, -1);
    appendText(this.code.element.code, text);
  }

  // Complete the text.
  end() {
    if (this.code && (this.mid || !this.code.close.test(this.tail))) this.putCode(this.tail);
    this.code = null;
    this.tail = "";
  }
}

// Render a whole text.
export function render(parent, text) {
  const r = new Renderer(parent);
  r.append(text);
  r.end();
}
