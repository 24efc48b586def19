"""Looking at the page as its visitor does: canvases, the address, the chosen class."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

# A test of the page as it is served, and of the same page as a folder of files.
both = pytest.mark.parametrize("address", ["served", "static"], indirect=True)
# The same where the two differ in nothing but who answers: the folder's turn is the long run's.
both_at_length = pytest.mark.parametrize(
    "address", ["served", pytest.param("static", marks=pytest.mark.long)], indirect=True
)


def drawing(page, canvas="#reconstruction"):
    """What is painted on a canvas."""
    return page.eval_on_selector(canvas, "canvas => canvas.toDataURL()")


def wait_for_change(page, before, canvas="#reconstruction"):
    page.wait_for_function(
        "([id, before]) => document.querySelector(id).toDataURL() !== before", arg=[canvas, before]
    )


# Counts what the page still waits for: answers of the server (or of a worker, in a page without
# one) and its own short delays before it asks or writes; `visit` runs it before the page's code.
COUNT_WAITS = """(() => {
  const [ask, later, never] = [window.fetch, window.setTimeout, window.clearTimeout];
  const delays = new Set();
  let asked = 0;
  let since = 0;
  const count = (more) => {
    asked += more;
    window.askedAt = since = performance.now();
  };
  window.fetch = (...question) => {
    count(1);
    return ask(...question).finally(() => count(-1));
  };
  window.Worker = class extends Worker {
    constructor(...how) {
      super(...how);
      this.addEventListener("message", ({ data }) => "id" in data && count(-1));
    }
    postMessage(question, ...how) {
      if ("id" in question) count(1);
      super.postMessage(question, ...how);
    }
  };
  window.setTimeout = (act, delay, ...rest) => {
    const timer = later(() => (delays.delete(timer), act(...rest)), delay);
    if (delay < 500) delays.add(timer);
    return timer;
  };
  window.clearTimeout = (timer) => (delays.delete(timer), never(timer));
  const until = (so) =>
    new Promise((done) => {
      const look = () => (so() ? done() : later(look, 20));
      look();
    });
  // A film that plays always has the next delay: those of before are waited for.
  window.untilWritten = () => {
    const before = [...delays];
    return until(() => !before.some((timer) => delays.has(timer)));
  };
  // What a frame asks for counts from the frame on, and frames are late on a busy machine.
  const frame = () => new Promise(requestAnimationFrame);
  window.untilQuiet = async () => {
    let last;
    await frame();
    await new Promise((done) => later(done, 20));
    await window.untilWritten();
    do {
      await until(() => !asked && performance.now() - since >= 100); // read, and asked on, by then
      last = since;
      await frame();
    } while (since !== last);
  };
  window.untilKept = async () => {
    await Promise.race([window.untilQuiet(), new Promise((done) => later(done, 2000))]);
    await window.untilWritten();
  };
})();"""


def quiet(page):
    """Wait until all that was asked of the server is answered and drawn, by the page's clock."""
    page.evaluate("untilQuiet()")


def settled(page, canvas="#reconstruction"):
    """What is painted on a canvas once nothing is asked and it no longer changes."""
    before = None
    while before != (now := drawing(page, canvas)):
        before = now
        quiet(page)
    return now


def state_of(page):
    """What the address says once all is answered and written; of a film that plays, after 2 s."""
    page.evaluate("untilKept()")
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).fragment).items()}


def winner(page):
    return page.inner_text(".class-row.chosen .class-name")


def drag(page, *points):
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=3)
    page.mouse.up()


def check_accessible(path, browser, width, theme):
    """Assert that axe finds nothing grave on a page of the disk."""
    from axe_playwright_python.sync_playwright import Axe

    # Such a page's policy lets no script in, not even the one that looks at it: it is a copy's.
    copy = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True
    )
    checked = copy.new_page()
    checked.goto(path.as_uri())
    found = Axe().run(checked).response["violations"]
    copy.close()
    grave = [v for v in found if v["impact"] in ("serious", "critical")]
    nodes = [(v["id"], [n["html"][:150] for n in v["nodes"]][:3]) for v in grave]
    assert nodes == [], json.dumps(nodes, indent=1)
