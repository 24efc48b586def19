"""Looking at the page as its visitor does: canvases, the address, the chosen class."""

from urllib.parse import parse_qs, urlsplit


def drawing(page, canvas="#reconstruction"):
    """What is painted on a canvas."""
    return page.eval_on_selector(canvas, "canvas => canvas.toDataURL()")


def wait_for_change(page, before, canvas="#reconstruction"):
    page.wait_for_function(
        "([id, before]) => document.querySelector(id).toDataURL() !== before", arg=[canvas, before]
    )


def settled(page, canvas="#reconstruction"):
    """What is painted on a canvas once it no longer changes."""
    before = None
    while before != (now := drawing(page, canvas)):
        before = now
        page.wait_for_timeout(400)
    return now


def state_of(page):
    """What the address says, once it has been written: the page's own clock tells, not ours."""
    page.evaluate("() => new Promise((done) => setTimeout(done, 250))")
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).fragment).items()}


def winner(page):
    return page.inner_text(".class-row.chosen .class-name")


def drag(page, *points):
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=3)
    page.mouse.up()
