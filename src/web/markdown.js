// markdown.js - Markdown of answers as elements: headings, lists, tables, code, quotes, and inline
// marks (CommonMark and GitHub's tables and strikethrough). HTML is text. Images are links, because
// the page requests nothing from other hosts.
//
// A Renderer takes text in pieces. All blocks except the last block are final. Items of lists and
// rows of tables are blocks. A second Renderer draws the lines of a long quote or item. Therefore
// the time of an update depends on one block, not on the whole text. Browsers skip the layout of
// blocks outside of the window (style.css). A long list or table continues in a further list or
// table.

import { make, button, appendText } from "./dom.js";

const BLOCK_MAX = 2500; // maximum characters of a paragraph; the rest is a further paragraph
const LINE_MAX = 100; // lines of a list after which a further list begins; rows of a table
const DEPTH_MAX = 12; // maximum depth of quotes and items; deeper text is not formatted

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

// Return a block of lines[i] and the lines after it for which belongs(line, next line) is true.
// strip(line): line without the prefix of the block.
function container(lines, i, first, block) {
  let end = i + 1;
  while (end < lines.length && block.belongs(lines[end], lines[end + 1])) end++;
  return { ...block, lines: [first, ...lines.slice(i + 1, end).map(block.strip)], end };
}

// Return the block at lines[i] as {type, end, ...}. end: index after its last line. A quote or item
// has lines, belongs, strip, and fixed(line): true if the incomplete line belongs to the block and
// further characters do not change its prefix.
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
  if (/^ {0,3}>/.test(line)) {
    const strip = (l) => l.replace(/^ {0,3}> ?/, "");
    return container(lines, i, strip(line), { type: "quote", strip, fixed: (l) => /^ {0,3}>./.test(l),
      belongs: (l) => l.trim() && (/^ {0,3}>/.test(l) || !begins(l)) });
  }
  const item = ITEM.exec(line);
  if (item) {
    const indent = item[1].length + item[2].length + 1, blanks = (l) => l.length - l.trimStart().length;
    const fixed = (l) => l.trim() && blanks(l) >= Math.min(indent, item[1].length + 2);
    return container(lines, i, item[3] || "", { type: "item", ordered: /\d/.test(item[2]), start: parseInt(item[2], 10), fixed,
      strip: (l) => l.slice(Math.min(indent, blanks(l))), belongs: (l, after) => (l.trim() ? fixed(l) || !begins(l) : after && fixed(after)) });
  }
  if (isTable(lines, i))
    return { type: "table", head: cells(line), number: -1, align: cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "mid" : "end") : "")), end: i + 2 };
  const split = splitLong(lines, i);
  let end = i + 1, n = split ? BLOCK_MAX : line.length;
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

// Draw the lines of a quote or item in e. Return the Renderer.
function nested(e, b, depth) {
  const inner = new Renderer(e, depth + 1);
  inner.append(b.lines.join("\n"));
  return inner;
}

function row(tag, texts, align) {
  return make("tr", {}, ...align.map((a, i) => make(tag, { className: a, ...(tag === "th" ? { scope: "col" } : {}) }, ...inline(texts[i] || ""))));
}

function table(b, className) {
  return make("div", { className, tabIndex: 0, role: "group", "aria-label": "Table" }, make("table", {}, make("thead", {}, row("th", b.head, b.align)), make("tbody")));
}

// Append an item to the list at the end of `parent`, or to a new list. Return the item, or the new
// list. b.number: the item's number. b.size: lines of the list up to the item.
function putItem(parent, b, depth, previous) {
  const tag = b.ordered ? "OL" : "UL", same = previous?.type === "item" && parent.lastElementChild?.tagName === tag;
  const task = /^\[([ xX])\] /.exec(b.lines[0]), e = make("li");
  b.number = same ? previous.number + 1 : b.start;
  b.size = b.lines.length + (same && previous.size < LINE_MAX ? previous.size : 0);
  if (task) {
    e.append(make("span", { role: "img", "aria-label": task[1] === " " ? "open" : "done" }, task[1] === " " ? "☐ " : "☑ "));
    b.lines[0] = b.lines[0].slice(4);
  }
  if (b.lines.length === 1) e.append(...inline(b.lines[0]));
  else b.inner = nested(e, b, depth);
  if (same && previous.size < LINE_MAX) {
    parent.lastElementChild.append(e);
    return e;
  }
  const list = make(tag.toLowerCase(), same ? { className: "further" } : {}, e);
  if (b.ordered && b.number !== 1) list.start = b.number;
  if (b.ordered && b.number + LINE_MAX > 1000) list.classList.add("wide");
  parent.append(list);
  return list;
}

// Append the block to `parent`, or to the list or table at the end of `parent`. Return the new
// child of `parent`, list or table. b.inner: Renderer of a quote or of an item with several lines;
// the caller calls its end().
function put(parent, b, depth, previous) {
  if (b.type === "item") return putItem(parent, b, depth, previous);
  let e;
  if (b.type === "row") {
    const further = b.number && b.number % LINE_MAX === 0, line = row("td", b.cells, b.align);
    e = further ? table(b, "table further") : line;
    if (further) parent.append(e);
    parent.lastElementChild.querySelector("tbody").append(line);
    return e;
  }
  if (b.type === "code") { e = codeBlock(b); appendText(e.code, b.lines.join("\n")); }
  else if (b.type === "head") e = make(`h${Math.min(6, b.level + 3)}`, {}, ...inline(b.text));
  else if (b.type === "rule") e = make("hr");
  else if (b.type === "quote") { e = make("blockquote"); b.inner = nested(e, b, depth); }
  else if (b.type === "table") e = table(b, "table");
  else e = make("p", {}, ...inline(b.text));
  parent.append(e);
  return e;
}

// Return the next block. Lines after a table are its rows.
function next(lines, i, previous) {
  if (previous && (previous.type === "table" || previous.type === "row") && lines[i].includes("|") && lines[i].trim())
    return { type: "row", head: previous.head, number: previous.number + 1, cells: cells(lines[i]), align: previous.align, end: i + 1 };
  return blockAt(lines, i);
}

export class Renderer {
  constructor(parent, depth = 0) {
    this.parent = parent;
    this.depth = depth;
    this.tail = ""; // text of the blocks that may change
    this.open = []; // elements of the blocks that may change
    this.previous = null; // block before the blocks that may change
    this.code = null; // open code block: {element, close}
    this.long = null; // open quote or item of many lines
    this.mid = false; // the beginning of the last line is in the open code block, quote or item
  }

  append(text) {
    if (this.depth > DEPTH_MAX) this.parent.append(text);
    else if (this.code) this.appendCode(text);
    else if (this.long) this.appendLong(text);
    else {
      this.tail += text;
      this.render();
    }
  }

  // The last line may be incomplete. A block is final if the complete lines after it end it, or if
  // it is the beginning of a long line.
  render() {
    const lines = this.tail.split("\n");
    let previous = this.previous, first = -1; // first: line of the first block that may change
    for (const e of this.open.reverse()) e.remove();
    this.open = [];
    for (let i = 0; i < lines.length;) {
      const b = next(lines, i, previous), last = lines.length - 1;
      if (b.type === "code" && !b.closed && i < last) { this.openCode(lines, i, b, previous); return; }
      const more = b.end < last && (b.type === "item" ? !lines[b.end].trim() : b.type === "text" && lines[b.end].includes("|"));
      const after = more ? b.end + 1 : b.end;
      if (first < 0 && after >= last && !b.split) {
        first = i;
        if (b.belongs && Math.min(b.end, last) - i >= LINE_MAX) { this.openLong(lines, i, b, previous); return; }
      }
      if (b.type !== "none") {
        const e = put(this.parent, b, this.depth, previous);
        b.inner?.end();
        if (first >= 0) this.open.push(e);
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
    this.code = { element: put(this.parent, { ...b, lines: [] }, this.depth, previous), close: new RegExp(`^ {0,3}${fence[2][0]}{${fence[2].length},} *$`) };
    this.previous = b;
    this.open = [];
    this.tail = "";
    this.mid = this.pending = false;
    this.appendCode(lines.slice(i + 1).join("\n"));
  }

  // The complete lines of the block are final, and so are all blocks before it.
  openLong(lines, i, b, previous) {
    const end = Math.min(b.end, lines.length - 1);
    b.lines.length = end - i;
    put(this.parent, b, this.depth, previous);
    this.previous = this.long = b;
    this.mid = false;
    this.tail = "";
    this.appendLong(lines.slice(end).join("\n"));
  }

  // A line that may not belong to the block is not drawn before its end. A blank line waits for the
  // line after it.
  appendLong(text) {
    const b = this.long, lines = (this.tail + text).split("\n"), last = lines.length - 1;
    let out = "", i = 0;
    for (; i < last && (this.mid || lines[i].trim() || i + 1 < last || lines[last].trim()); i++) {
      if (!this.mid && !b.belongs(lines[i], lines[i + 1])) {
        b.inner.append(out);
        b.inner.end();
        this.long = null;
        this.tail = lines.slice(i).join("\n");
        this.render();
        return;
      }
      out += this.mid ? lines[i] : "\n" + b.strip(lines[i]);
      this.mid = false;
    }
    if (i === last && (this.mid || b.fixed(lines[last]))) {
      out += this.mid ? lines[last] : "\n" + b.strip(lines[last]);
      this.mid = true;
      i++;
    }
    this.tail = lines.slice(i).join("\n");
    b.inner.append(out);
  }

  // A line that may become the closing fence is not drawn before its end.
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
    if (this.long) this.append("\n");
    this.long?.inner.end();
    if (this.code && (this.mid || !this.code.close.test(this.tail))) this.putCode(this.tail);
    this.code = this.long = null;
    this.tail = "";
  }
}

// Render a whole text.
export function render(parent, text) {
  const r = new Renderer(parent);
  r.append(text);
  r.end();
}
