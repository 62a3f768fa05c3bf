"""Test the web page of the quoth server at port argv[1] with Chromium (argv[2]). The script
performs each act by mouse and by keyboard only, in a wide and a narrow window. Other parts are
hostile texts, a long stream and accessibility. The script writes screenshots to the folder argv[3]
("": none). argv[4]: 1 for all combinations. Prints "ok NAME" or "FAIL NAME: why" per part. Run by
page.py."""
import json
import os
import random
import re
import sys
import time
import traceback

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, sync_playwright

import page_stub

NO_BROWSER = 77  # exit status
PAYLOADS = [
    "<script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", "<svg onload=window.hit=1>", "[a](javascript:window.hit=1)",
    "[a](JaVaScRiPt:window.hit=1)", "[a](data:text/html,<script>window.hit=1</script>)", "![a](javascript:window.hit=1)",
    "![x](http://127.0.0.1:9/pixel.png)", "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>", "<a href=javascript:window.hit=1>a</a>",
    "<javascript:window.hit=1>", "```html\n<script>window.hit=1</script>\n```", "`<img src=x onerror=window.hit=1>`", "# <script>window.hit=1</script>",
    "| <img src=x onerror=window.hit=1> | b |\n|---|---|\n| <script>window.hit=1</script> | c |", "- <svg/onload=window.hit=1>", "> <body onload=window.hit=1>",
    "<style>@import 'http://127.0.0.1:9/x.css';</style>", "<link rel=stylesheet href=http://127.0.0.1:9/x.css>", "<base href=http://127.0.0.1:9/>",
    "<form action=javascript:window.hit=1><input type=submit autofocus></form>", "<input autofocus onfocus=window.hit=1>", "<details open ontoggle=window.hit=1>",
    "<video><source onerror=window.hit=1></video>", "<math><mtext></mtext><script>window.hit=1</script></math>", "<object data=javascript:window.hit=1>",
    "<embed src=javascript:window.hit=1>", "[a](vbscript:msgbox)", "[a](\x01javascript:window.hit=1)", "[a](java\tscript:window.hit=1)",
    "[a]( javascript:window.hit=1)", "[a](&#106;avascript:window.hit=1)", "**<script>window.hit=1</script>**", "<meta http-equiv=refresh content='0;url=javascript:window.hit=1'>",
    "http://127.0.0.1:9/<script>window.hit=1</script>", "<http://127.0.0.1:9/\"onmouseover=window.hit=1>", "[a](http://x\"onmouseover=\"window.hit=1)",
    "</textarea><script>window.hit=1</script>", "<!--><script>window.hit=1</script>-->", "<![CDATA[<script>window.hit=1</script>]]>",
    "~~~\n</code></pre><script>window.hit=1</script>\n~~~", "<xss style=animation-name:x onanimationstart=window.hit=1>", "<marquee onstart=window.hit=1>",
    "<template><script>window.hit=1</script></template>", "<noscript><p title=\"</noscript><img src=x onerror=window.hit=1>\">", "[![a](javascript:window.hit=1)](javascript:window.hit=1)",
    "${window.hit=1}", "{{constructor.constructor('window.hit=1')()}}", "__proto__", "\u202e<script>window.hit=1</script>",
]
PAYLOADS += ["> - " + p.replace("\n", "\n> - ") for p in PAYLOADS]

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]


class Browser:
    """A page of one width. Acts are done by mouse only or by keyboard only."""

    def __init__(self, browser, stub, width, keyboard):
        self.stub, self.keyboard, self.narrow = stub, keyboard, width < 700
        self.context = browser.new_context(viewport={"width": width, "height": 800}, accept_downloads=True,
                                           permissions=["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.home = f"http://127.0.0.1:{stub.server_port}"
        self.wrong, self.acts = [], 0
        self.page.on("console", lambda m: self.wrong.append(f"console: {m.text}") if m.type in ("error", "warning") and "400" not in m.text else None)
        self.page.on("pageerror", lambda e: self.wrong.append(f"error: {e}"))
        self.page.on("request", lambda r: None if r.url.startswith((self.home, "blob:")) else self.wrong.append(f"request to {r.url}"))
        self.open()

    def open(self):
        self.page.goto(self.home + "/")
        self.page.wait_for_function("() => document.querySelectorAll('#model option').length > 0")

    def element(self, what):
        return self.page.locator(what) if what.startswith(("#", ".", "css=")) else self.page.get_by_role("button", name=what, exact=True)

    def reach(self, e):
        """Move the focus to the element by Tab."""
        e = e.element_handle()
        for key in ("Tab", "Shift+Tab"):
            for _ in range(150):
                if e.evaluate("e => document.activeElement === e"):
                    return
                self.page.keyboard.press(key)
        raise AssertionError(f"Tab does not reach {e}")

    def press(self, what, last=True):
        """Activate a button."""
        self.acts += 1
        e = self.element(what).last if last else self.element(what).first
        e.wait_for(state="visible")
        if self.keyboard:
            self.reach(e)
            self.page.keyboard.press("Enter")
        else:
            e.click()

    def type(self, what, text, select=True):
        """Replace the text of a field."""
        self.acts += 1
        e = self.element(what).last
        e.wait_for(state="visible")
        if self.keyboard:
            self.reach(e)
        else:
            e.click()
        if select:
            self.page.keyboard.press("Control+A")
        if text:
            self.page.keyboard.insert_text(text)
        else:
            self.page.keyboard.press("Delete")

    def choose(self, what, value):
        """Choose an option of a select."""
        self.acts += 1
        if not self.keyboard:
            self.page.locator(what).select_option(value)
            return
        self.reach(self.page.locator(what))
        for key in ("ArrowUp",) * 5 + ("ArrowDown",) * 5:
            if self.page.locator(what).input_value() == value:
                return
            self.page.keyboard.press(key)
        assert self.page.locator(what).input_value() == value, what

    def side(self, what):
        """Activate a button of the list. On narrow screens, another button opens the list."""
        if self.narrow and not self.page.locator("#side").is_visible():
            self.press("#drawer")
        self.press(what)

    def done(self, status="complete"):
        self.page.wait_for_function("s => document.getElementById('status').textContent.includes(s) && document.getElementById('stop').hidden", arg=status)

    def say(self, text, wait=True):
        self.type("#input", text)
        if self.keyboard:
            self.page.keyboard.press("Enter")
        else:
            self.page.locator("#send").click()
        if wait:
            self.done()

    def texts(self):
        return self.page.locator("#log .message .text").all_text_contents()

    def last_request(self):
        return self.stub.requests[-1]


def conversation(b):
    """messages, stop, regenerate, edit, branches, copy"""
    p = b.page
    b.say("one")
    assert b.texts()[0] == "one" and b.texts()[1].startswith("Answer"), b.texts()
    first = b.texts()[1]
    b.press("Regenerate")
    b.done()
    p.wait_for_function("t => ![...document.querySelectorAll('#log .text')].some((e) => e.textContent === t)", arg=first)
    assert "2 of 2" in p.locator("#log").inner_text()
    b.press("Show the previous version")
    assert b.texts()[1] == first, b.texts()
    b.press("Show the next version")
    assert b.texts()[1] != first
    b.press("Edit")
    b.press("Cancel")
    assert b.texts()[0] == "one"
    b.press("Edit")
    b.type(".message textarea", "two")
    b.press("Save and send")
    b.done()
    assert b.texts()[0] == "two" and b.texts()[1].endswith("two"), b.texts()
    b.press("Show the previous version")
    assert b.texts()[0] == "one"
    b.press("Show the next version", last=False)
    assert b.texts()[0] == "two"
    b.press("Copy")
    assert p.evaluate("navigator.clipboard.readText()") == b.texts()[1]
    b.say("slow", wait=False)
    p.wait_for_function("() => document.querySelector('#log .message:last-child .text').textContent.length > 8")
    b.press("#stop")
    b.done("stopped")
    assert len(b.texts()[-1]) > 8
    b.say("slow", wait=False)
    p.wait_for_function("() => document.querySelector('#log .message:last-child .text').textContent.length > 8")
    b.acts += 1
    p.keyboard.press("Escape")
    b.done("stopped")
    n = len(b.stub.requests)
    b.say(" ", wait=False)
    assert len(b.stub.requests) == n, "an empty message was sent"
    b.type("#input", "a")
    p.keyboard.press("Shift+Enter")
    p.keyboard.insert_text("b")
    p.keyboard.press("Enter")
    b.done()
    assert b.last_request()[0]["messages"][-1]["content"] == "a\nb"
    b.say("refuse", wait=False)
    b.done("failed")
    assert "no such thing" in p.locator("#log").inner_text()
    b.say("break", wait=False)
    b.done("failed")
    assert "the engine failed" in p.locator("#log .message").last.inner_text() and "begun" in b.texts()[-1]


def forms(b):
    """Markdown, code to copy, thinking, tool calls and their results"""
    p = b.page
    b.side("New conversation")
    b.say("markdown")
    for what in ("h4", "strong", "em", "del", "p code", "table td.end", "ol > li", "ol ul li", "blockquote", "pre code", "a[target=_blank]"):
        assert p.locator(f"#log .assistant .text {what}").count() > 0, what
    assert p.locator("#log pre code").inner_text() == "def f(x):\n    return x + 1"
    b.press("Copy code")
    assert p.evaluate("navigator.clipboard.readText()") == "def f(x):\n    return x + 1"
    b.say("tools")
    fold = p.locator("#log summary", has_text="Thinking")
    assert not p.locator("#log details .plain").is_visible()
    for shown in (True, False):
        b.acts += 1
        if b.keyboard:
            b.reach(fold)
            p.keyboard.press("Enter")
        else:
            fold.click()
        assert p.locator("#log details .plain").is_visible() == shown
    call = p.locator("#log summary", has_text="Tool call: get_weather")
    b.acts += 1
    if b.keyboard:
        b.reach(call)
        p.keyboard.press("Enter")
    else:
        call.click()
    assert '"Paris"' in p.locator("#log details pre").inner_text()
    b.type(".results textarea", "sunny")
    b.press("Send results")
    b.done()
    sent = b.last_request()[0]["messages"]
    assert sent[-1] == {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}, sent[-1]
    assert sent[-2]["tool_calls"][0]["function"] == page_stub.CALL["function"] and sent[-2]["reasoning_content"].split() == page_stub.THOUGHT.split()
    assert b.texts()[-1] == "The tool answered: sunny"


def settings(b):
    """system prompt, sampling, tools, key, colors, model"""
    p = b.page
    b.press("Settings")
    b.type("#set-system", "Be brief.")
    b.press("css=#settings button[value=cancel]")
    b.say("three")
    assert b.last_request()[0]["messages"][0]["role"] != "system"
    b.press("Settings")
    for name, text in (("system", "Be brief."), ("temperature", "0.5"), ("top_p", "0.9"), ("top_k", "40"), ("min_p", "0.1"), ("max_tokens", "30"), ("seed", "7"), ("key", "sk-x")):
        b.type(f"#set-{name}", text)
    b.type("#set-tools", "[{]")
    b.press("#save-settings")
    assert "Tools" in p.locator("#tools-error").inner_text()
    b.type("#set-tools", json.dumps(TOOLS))
    b.press("#save-settings")
    b.say("four")
    body, headers = b.last_request()
    assert body["messages"][0] == {"role": "system", "content": "Be brief."} and body["tools"] == TOOLS, body
    assert [body[k] for k in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")] == [0.5, 0.9, 40, 0.1, 30, 7]
    assert headers["Authorization"] == "Bearer sk-x"
    for theme, back in (("dark", "rgb(23, 24, 27)"), ("light", "rgb(251, 251, 250)")):
        b.press("Settings")
        b.choose("#set-theme", theme)
        b.press("#save-settings")
        assert p.evaluate("getComputedStyle(document.body).backgroundColor") == back
    b.choose("#model", p.locator("#model option").last.get_attribute("value"))
    b.say("five")
    assert b.last_request()[0]["model"] == p.locator("#model option").last.get_attribute("value")
    b.press("Settings")
    for name in ("system", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "tools", "key"):
        b.type(f"#set-{name}", "")
    b.press("#save-settings")
    b.say("six")
    assert not {"temperature", "tools", "seed"} & set(b.last_request()[0])


def lists(b):
    """conversations: new, switch, rename, delete, export, import, reload; the server's figures"""
    p = b.page
    b.side("New conversation")
    b.say("alpha")
    b.side("New conversation")
    b.say("beta")
    b.side("alpha")
    assert b.texts()[0] == "alpha"
    b.press("Rename")
    b.type("#question-text", "gamma")
    b.press("css=#question button[value=no]")
    assert p.locator("#title").inner_text() == "alpha"
    b.press("Rename")
    b.type("#question-text", "gamma")
    b.press("#question-yes")
    p.wait_for_function("() => document.getElementById('title').textContent === 'gamma'")
    with p.expect_download() as d:
        b.press("Export")
    path = d.value.path()
    exported = json.load(open(path, encoding="utf-8"))
    assert exported["conversations"][0]["title"] == "gamma"
    b.press("Delete")
    b.press("css=#question button[value=no]")
    assert p.locator("#title").inner_text() == "gamma"
    b.press("Delete")
    b.press("#question-yes")
    p.wait_for_function("() => document.getElementById('title').textContent !== 'gamma'")
    for name, content, status in (("good.json", open(path, "rb").read(), "imported 1"), ("bad.json", b"{", "not imported"),
                                  ("worse.json", b'{"quoth":1,"conversations":[{"id":"a","title":"t","nodes":[{"role":"x"}]}]}', "not imported")):
        with p.expect_file_chooser() as chooser:
            b.side("Import")
        chooser.value.set_files({"name": name, "mimeType": "application/json", "buffer": content})
        p.wait_for_function("s => document.getElementById('status').textContent.includes(s)", arg=status)
    assert p.locator("#title").inner_text() == "gamma" and b.texts()[0] == "alpha"
    p.wait_for_timeout(200)
    b.open()
    b.side("gamma")
    assert b.texts()[0] == "alpha"
    b.press("#show-server")
    p.wait_for_function("() => document.querySelectorAll('.tile polyline[points]').length >= 8")
    p.wait_for_function("() => document.getElementById('server-line').textContent.includes('million parameters')")
    b.press("#show-chat")
    assert p.locator("#log").is_visible()


def accessible(b):
    """axe-core: no serious fault in either view, in the settings, in both colors"""
    for theme in ("light", "dark"):
        b.page.evaluate("t => { document.documentElement.dataset.theme = t; }", theme)
        for step in ("chat", "settings", "server"):
            if step == "settings":
                b.page.click("#open-settings")
            if step == "server":
                b.page.click("#show-server")
                b.page.wait_for_timeout(300)
            found = [v for v in Axe().run(b.page).response["violations"] if v["impact"] in ("serious", "critical")]
            if step == "settings":
                b.page.click("#settings button[value=cancel]")
            assert not found, [(v["id"], v["nodes"][0]["html"][:200], v["nodes"][0].get("failureSummary", "")[:200]) for v in found]
        b.page.click("#show-chat")


def hostile(b, step):
    """hostile texts as output and as names have no effect"""
    p = b.page
    for i, text in list(enumerate(PAYLOADS))[::step]:
        b.stub.payloads[i] = text
        p.fill("#input", f"payload {i}")
        p.keyboard.press("Enter")
        b.done()
    names = [dict(id=f"n{i}", title=t, leaf="m", nodes=[dict(id="m", parent=None, role="user", text=t)]) for i, t in enumerate(PAYLOADS)]
    p.set_input_files("#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": json.dumps(dict(quoth=1, conversations=names)).encode()})
    p.wait_for_function("() => document.getElementById('status').textContent.startsWith('imported')")
    for a in p.locator("#log a, #list a").all():
        assert re.match(r"https?://|mailto:", a.get_attribute("href")), a.get_attribute("href")
    assert p.evaluate("window.hit") is None
    assert p.locator("#log script, #log img, #log iframe, #log style, #list script, #list img").count() == 0


def stream(browser, b, kind):
    """Return the longest task of the page's main thread in a stream of 20,000 tokens, in
    milliseconds of processor time. On a busy machine, clock time includes waits for the
    processor."""
    p = b.page
    browser.start_tracing(page=p, categories=["toplevel", "devtools.timeline"])
    p.fill("#input", kind)
    p.keyboard.press("Enter")
    p.wait_for_function("() => document.getElementById('status').textContent === 'complete'", timeout=120000)
    p.wait_for_timeout(300)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"]
    times = [e["tdur"] / 1000 for e in events if "tdur" in e and e["name"].endswith("RunTask") and (e["pid"], e["tid"]) in main]
    assert len(times) > 100, len(times)
    shown = p.locator("#log .assistant").last.locator(".text")
    if kind == "long":
        assert shown.locator("li").count() == 60 * 15 and shown.locator("td").count() == 60 * 20 and shown.locator("pre").count() == 60
    if kind == "numbers":
        starts = shown.locator("ol").evaluate_all("lists => lists.map((e) => [e.start, e.children.length])")
        assert starts == [[k, 100] for k in range(1, 4000, 100)], starts
    if kind == "rows":
        assert shown.locator("tbody tr").count() == 4700 and shown.locator("thead").first.is_visible() and not shown.locator("thead").last.is_visible()
    if kind == "nested":
        assert shown.locator("> ul").count() == shown.locator("> ul > li").count() == 1 and shown.locator("> ul > li > ul > li").count() == 4500
    print(f"note {kind}: {len(page_stub.TEXTS[kind]()) // 5} pieces, {len(times)} tasks, the longest {max(times):.1f} ms")
    return max(times)


def pieces(b, n):
    """an answer in pieces looks like the whole answer"""
    r = random.Random(5)
    lines = page_stub.MARKDOWN.split("\n") + ["    deep", "```", "~~~", "| a | b", "|---|---|", "text | text", "1) x", "* y", "  more", "", "", "> q", "***", "a\\*b*c*",
                                              "`` x ` y ``", "<b>", "**open", "10. ten", "-", "#", "# ", "&amp;", "[x](y", "- [ ]", "  ```", "\t- tab"]
    texts = ["\n".join(r.choice(lines) for _ in range(r.randrange(1, 14))) for _ in range(n)]
    texts += [f"{t}\n" + "a *long* line " * 500 + f"\n{t}" for t in texts[:n // 100]]
    filled = [line for line in lines if line.strip()]
    for i, t in enumerate(texts[:n // 20]):  # long quotes and items; two blank lines in a row end an item
        first, prefix = r.choice([("> ", "> "), ("- ", "  "), ("1. ", "   "), ("- - ", "    "), ("- > ", "  > "), ("> - ", ">   ")])
        inner = [prefix + (r.choice(filled) if r.random() < 0.96 else "") for _ in range(r.randrange(190, 460))]
        if i % 3 == 0:
            inner.insert(r.randrange(len(inner)), r.choice(["", "more", "- more"]))
        texts.append(f"{t}\n{first}" + "\n".join(inner)[len(prefix):] + r.choice([f"\n{t}", "\nmore", f"\n{prefix}~~"]))
    ends = ["> a\n" * 250 + "the end", "> ```\n" + "> a\n" * 250 + "> ~~"]
    wrong = b.page.evaluate("""async ([texts, ends, seed]) => {
      const { Renderer, render } = await import("/page/markdown.js");
      const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
      const html = (e) => { e.querySelectorAll("pre span").forEach((s) => s.replaceWith(...s.childNodes)); e.normalize(); return e.innerHTML; };
      for (const text of texts) {
        const whole = document.createElement("div"), e = document.createElement("div"), r = new Renderer(e), cut = [];
        render(whole, text);
        for (let i = 0; i < text.length;) { const n = 1 + random(random(4) ? 5 : 40); cut.push(text.slice(i, i + n)); r.append(text.slice(i, i + n)); i += n; }
        r.end();
        const a = html(whole), b = html(e);
        if (a !== b) return JSON.stringify([cut, a, b]);
      }
      for (const text of ends) {
        const whole = document.createElement("div");
        render(whole, text);
        if (!whole.textContent.endsWith(text.slice(-2))) return `no end: ${text.slice(-9)}`;
      }
      return "";
    }""", [texts, ends, 7])
    assert not wrong, wrong


def main(port, chromium, folder, everything):
    stub = page_stub.start(port, list(PAYLOADS))
    failed = 0

    def part(name, fn):
        nonlocal failed
        try:
            fn()
            print(f"ok   {name}", flush=True)
        except Exception as e:  # noqa: BLE001
            failed += 1
            line = traceback.extract_tb(e.__traceback__)
            where = [f.lineno for f in line if f.filename == __file__][-1]
            print(f"FAIL {name}: line {where}: {type(e).__name__}: {str(e)[:600]}", flush=True)

    with sync_playwright() as play:
        try:
            browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"])
            browser.new_page().close()
        except Error as e:
            print(f"Chromium does not start: {str(e)[:300]}")
            return NO_BROWSER
        for width in (1440, 360):
            for keyboard in (False, True) if everything else (width < 700,):
                b = Browser(browser, stub, width, keyboard)
                b.page.set_default_timeout(20000)
                how = f"{width} pixels, {'keyboard' if keyboard else 'mouse'}"
                for act in (conversation, forms, settings, lists):
                    part(f"{act.__name__}, {how}", lambda act=act: act(b))
                if folder:
                    b.page.screenshot(path=os.path.join(folder, f"page-{width}-{'keyboard' if keyboard else 'mouse'}.png"))
                part(f"no error, no request to other hosts, at least 40 acts, {how}", lambda: check_clean(b))
                part(f"accessible, {how}", lambda: accessible(b))
                b.context.close()
            part(f"no scroll to the side, {width} pixels", lambda: sideways(browser, stub, width))
        b = Browser(browser, stub, 1440, False)
        part("answers in pieces", lambda: pieces(b, 20000 if everything else 1000))
        part("hostile texts", lambda: hostile(b, 1 if everything else 3))
        part("hostile texts: no error, no request", lambda: check_clean(b, 0))
        b.context.close()
        for kind in page_stub.TEXTS if everything else ("long", "line", "nested"):
            part(f"long stream, {kind}", lambda kind=kind: short_tasks(browser, stub, kind))
        browser.close()
    return failed


def check_clean(b, acts=40):
    assert not b.wrong, b.wrong[:5]
    assert b.acts >= acts, b.acts


def sideways(browser, stub, width):
    b = Browser(browser, stub, width, False)
    b.say("markdown")
    b.say("tools")
    figures = b.page.locator(".figures").last.inner_text()
    assert "7 tokens, first after" in figures and "per second" not in figures, figures  # all pieces at once
    b.say("steady")
    figures = b.page.locator(".figures").last.inner_text()
    rate = re.fullmatch(r"7 tokens, (.*) per second, first after .* s", figures)
    assert rate and 1 < float(rate.group(1)) < 7, figures
    model = b.page.locator("#model").bounding_box()
    assert model["width"] >= 120, f"{model['width']} pixels for the name of a model"
    hint = b.page.locator("#hint").inner_text()
    assert hint.split() == "Enter sends, Shift+Enter begins a line, Escape stops. complete".split(), hint
    wide = b.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    b.context.close()
    assert wide <= 0, f"{wide} pixels too wide"


def short_tasks(browser, stub, kind):
    b = Browser(browser, stub, 1440, False)
    longest = stream(browser, b, kind)
    b.context.close()
    assert longest < 50, f"the longest task took {longest:.0f} ms"


if __name__ == "__main__":
    start = time.monotonic()
    bad = main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "1")
    print(f"note {time.monotonic() - start:.0f} s")
    sys.exit(NO_BROWSER if bad == NO_BROWSER else 1 if bad else 0)
