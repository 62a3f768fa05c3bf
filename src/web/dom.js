// dom.js - makes elements. Text reaches the page only as text nodes, never as HTML.

// Return an element. fields are properties, or attributes if their name has a dash or is "role" or
// "for". Children are elements or texts.
export function make(tag, fields = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name.includes("-") || name === "role" || name === "for" || name === "scope") e.setAttribute(name, value);
    else e[name] = value;
  }
  e.append(...children);
  return e;
}

export const at = (id) => document.getElementById(id);

// Return a button that calls fn.
export function button(label, fn, fields = {}) {
  const b = make("button", { type: "button", ...fields }, label);
  b.addEventListener("click", fn);
  return b;
}

// maximum characters of an element, because browsers lay out a whole element again after it grows
const CHUNK = 4000;

// Append text to an element in chunks of whole lines, which makes the layout of long text cheap.
export function appendText(element, text) {
  while (text) {
    let last = element.lastElementChild;
    if (!last || last.full) last = element.appendChild(make("span"));
    const room = CHUNK - last.textContent.length;
    let end = text.length;
    if (text.length > room) {
      const line = text.indexOf("\n", Math.max(room, 0));
      end = line < 0 ? text.length : line + 1;
      last.full = line >= 0;
    }
    const part = text.slice(0, end);
    if (last.firstChild) last.firstChild.appendData(part);
    else last.append(part);
    text = text.slice(end);
  }
}
