"""What Route shows of the votes, also where one capsule outweighs all others."""

import numpy as np
import pytest
import torch
from screen import both_at_length, drawing, settled, state_of, wait_for_change

from capsnet.models.weights import find_model
from capsnet.ops import routing_trace
from capsnet.web.samples import digit_samples
from capsnet.web.schema import unpack_pixels
from capsnet.web.server import create_app

ATTRIBUTES = """(all) => all.map((one) => {
  const found = { capsule: Number(one.dataset.capsule) };
  for (const name of one.getAttributeNames()) found[name] = Number(one.getAttribute(name));
  return found;
})"""

COLOURS = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let p = 0; p < data.length; p += 4) found.add(data.slice(p, p + 4).join());
  return found.size;
}"""


def value(locator):
    return float(locator.inner_text().replace("−", "-").removesuffix(" %"))


@pytest.fixture(scope="module")
def shipped(serving):
    with serving(create_app()) as where:
        yield where


def test_the_maps_of_the_shipped_network_show_more_than_one_dot(visit, shipped):
    page = visit("mode=route&sample=2", where=shipped)
    page.wait_for_selector(".legend")
    assert page.eval_on_selector("#primary", COLOURS) > 50
    first, *_, last = (page.locator(".step canvas").nth(n).evaluate(COLOURS) for n in range(3))
    assert first == 4 and last > 50  # at first all couplings are even; the mark has two colours
    note = page.locator(".legend .note")
    assert "One strong capsule" in note.inner_text() and "capsnet_small" in note.inner_text()
    assert value(note.locator(".number").first) < value(note.locator(".number").last)
    assert value(note.locator(".number").last) == value(page.locator(".formula .aside .number"))
    page.close()


@both_at_length
def test_the_legend_says_what_the_ends_of_the_scale_are(visit):
    page = visit("mode=route&sample=3")
    ends = page.locator(".legend .ends .number").all_inner_texts()
    low, even, high = (float(end.split()[-1]) for end in ends)
    assert low < even == 0.1 < high
    assert low * high == pytest.approx(even**2, rel=0.1)
    sent = [float(x) for x in page.locator("#note-primary .number").all_inner_texts()]
    assert 0 < sent[0] <= sent[1]
    before = drawing(page, ".step:last-child canvas")
    page.locator(".class-row").first.click()
    wait_for_change(page, before, ".step:last-child canvas")


@both_at_length
def test_the_share_of_a_capsule_follows_from_the_other_numbers(visit):
    page = visit("mode=route&sample=3")
    lines = page.locator(".formula")
    c, s, v, agreement = (
        value(lines.nth(line).locator(".number").nth(place))
        for line, place in ((0, 2), (1, 0), (2, 0), (3, 1))
    )
    share = value(lines.nth(1).locator(".aside .number"))
    assert share == pytest.approx(100 * c * agreement / (s * v), abs=2)


def routed(runs, iters):
    """What the network of the tests does with the three: votes [I, J, E], c, s, v; in float64."""
    model, _ = find_model(runs["capsnet"])
    image = unpack_pixels(digit_samples().page(0)[3].image, (1, 28, 28))
    with torch.inference_mode():
        u, W = model.eval().primary(image[None]).double(), model.class_caps.W.double()
        trace = routing_trace(u, W, num_iters=iters)
    return model, *(x.numpy() for x in (trace.u_hat[0], trace.c[:, 0], trace.v[:, 0]))


def sizes(page, part, name):
    """An attribute of all dots or lines of the picture of agreement, by capsule."""
    found = page.locator(f".agreement .{part}").evaluate_all(ATTRIBUTES)
    return {one["capsule"]: one[name] for one in found}


@both_at_length
def test_the_picture_of_agreement_is_the_routing(visit, runs):
    _, votes, c, v = routed(runs, 3)
    j = int(np.linalg.norm(v[-1], axis=-1).argmax())
    votes, c, v = votes[:, j], c[:, :, j], v[:, j]
    long = np.linalg.norm(votes, axis=1)
    outcome = v[-1] / np.linalg.norm(v[-1])
    ways = votes / long[:, None]
    rest = ways - np.outer(ways @ outcome, outcome)
    second = np.linalg.eigh((rest * (c[-1] * long)[:, None]).T @ rest)[1][:, -1]
    page = visit("mode=route&sample=3&step=1")
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_selector(".agreement .dots circle")
    x, y = (sizes(page, "dots circle", name) for name in ("cx", "cy"))
    order = np.array(sorted(x))
    assert len(order) == len(votes)
    np.testing.assert_allclose([x[i] for i in order], ways @ outcome, atol=1e-4)
    np.testing.assert_allclose(np.abs([y[i] for i in order]), np.abs(ways @ second), atol=1e-3)
    sent = c * long
    for step in (1, 2, 3):
        page.locator(".step").nth(step - 1).click()
        r = sizes(page, "dots circle", "r")
        expected = 0.13 * np.sqrt(sent[step - 1] / sent.max())
        np.testing.assert_allclose([r[i] for i in order], np.maximum(expected, 0.006), atol=2e-4)
        lines = sizes(page, "lines line", "stroke-width")
        assert len(lines) == 120
        for i, width in lines.items():
            assert width == pytest.approx(0.045 * c[step - 1, i], abs=1e-4)
        arrow = page.locator(".agreement line.outcome")
        tip = [float(arrow.get_attribute(name)) for name in ("x2", "y2")]
        assert tip[0] == pytest.approx(v[step - 1] @ outcome, abs=2e-3)
        assert abs(tip[1]) == pytest.approx(abs(v[step - 1] @ second), abs=2e-3)
        agreed = np.linalg.norm(c[step - 1] @ votes) / sent[step - 1].sum()
        assert value(page.locator(".agreement .note .number")) == pytest.approx(agreed, abs=0.006)


@both_at_length
def test_route_routes_as_often_as_it_is_told_to(visit, runs):
    _, _, c, v = routed(runs, 5)
    j = int(np.linalg.norm(v[-1], axis=-1).argmax())
    page = visit("mode=route&sample=3")
    page.wait_for_selector(".agreement .dots circle")
    own = page.locator(".class-row .number").all_inner_texts()
    page.get_by_label("Iterations of the routing").select_option("5")
    assert page.locator(".step").count() == 5 and state_of(page)["iters"] == "5"
    for step, card in enumerate(page.locator(".step").all()):
        shown = float(card.inner_text().split("|v| = ")[1])
        assert shown == pytest.approx(np.linalg.norm(v[step, j]), abs=0.006)
    i = int(state_of(page)["capsule"])
    coupling = page.locator(".formula").first.locator(".number").last
    assert float(coupling.inner_text()) == pytest.approx(c[4, i, j], abs=6e-4)
    lengths = [float(x) for x in page.locator(".class-row .number:not(.cnn)").all_inner_texts()]
    np.testing.assert_allclose(lengths, np.linalg.norm(v[4], axis=-1), atol=0.006)
    page.reload()
    page.wait_for_selector(".step:nth-child(5)")
    page.get_by_label("Iterations of the routing").select_option("1")
    assert page.locator(".step").count() == 1
    assert float(coupling.inner_text()) == pytest.approx(0.1)
    page.get_by_role("tab", name="Tweak").click()
    page.wait_for_selector(".film-row")
    assert page.locator(".class-row .number").all_inner_texts() == own


@both_at_length
def test_every_iteration_is_drawn(visit, runs):
    model, _, _, v = routed(runs, 3)
    j = int(np.linalg.norm(v[-1], axis=-1).argmax())
    full = np.zeros_like(v)
    full[:, j] = v[:, j]
    with torch.inference_mode():
        expected = model.draw(torch.from_numpy(full).float())[:, 0].numpy()
    page = visit("mode=route&sample=3")
    page.wait_for_function("() => document.querySelector('.step .drawing')?.width === 28")
    for step, canvas in enumerate(page.locator(".step .drawing").all()):
        data = canvas.evaluate("x => [...x.getContext('2d').getImageData(0, 0, 28, 28).data]")
        pixels = np.reshape(data, (28, 28, 4))[..., 0] / 255
        assert abs(pixels - expected[step]).max() < 0.01
    last = settled(page)
    page.locator(".step").first.click()
    wait_for_change(page, last)
    assert settled(page) == drawing(page, ".step .drawing")


@both_at_length
def test_a_dot_shows_where_its_part_looks(visit):
    page = visit("mode=route&sample=3")
    page.wait_for_selector(".agreement .dots circle")
    before = page.inner_text(".capsule-table h3")
    dots = page.locator(".agreement .dots circle")
    wanted = dots.nth(1)
    wanted.scroll_into_view_if_needed()
    box = wanted.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.inner_text(".capsule-table h3") != before
    assert state_of(page)["capsule"] == wanted.get_attribute("data-capsule")
    assert page.locator("#field").is_visible()
    ring = page.locator(".agreement .ring")
    assert ring.get_attribute("cx") == wanted.get_attribute("cx")
    page.mouse.move(5, 5)
    assert state_of(page)["capsule"] == wanted.get_attribute("data-capsule")


def test_route_looks_into_another_network(visit, shipped):
    page = visit("mode=route&sample=2", where=shipped)
    page.wait_for_selector(".agreement .dots circle")
    first = page.locator(".agreement .dots circle").count()
    page.get_by_label("Network", exact=True).select_option("capsnet_small")
    page.wait_for_function("() => document.querySelector('#model').innerText.includes('_small')")
    page.wait_for_function(
        "n => document.querySelectorAll('.agreement .dots circle').length < n", arg=first
    )
    model, _ = find_model("capsnet_small")
    image = unpack_pixels(digit_samples().page(0)[2].image, (1, 28, 28))
    with torch.inference_mode():
        output = model.eval()(image[None])
    shown = [float(x) for x in page.locator(".class-row .number:not(.cnn)").all_inner_texts()]
    np.testing.assert_allclose(shown, output.lengths[0], atol=0.006)
    page.wait_for_function("() => document.querySelector('.step .drawing')?.width === 28")
    expected = (model.reconstruct(output.v)[0, 0].detach() * 255).numpy()
    canvas = page.locator(".step .drawing").last
    data = canvas.evaluate("x => [...x.getContext('2d').getImageData(0, 0, 28, 28).data]")
    assert abs(np.reshape(data, (28, 28, 4))[..., 0] - expected).max() < 2
    page.reload()
    page.wait_for_selector(".agreement .dots circle")
    assert "capsnet_small" in page.inner_text("#model")
    page.get_by_role("tab", name="Tweak").click()
    page.wait_for_selector(".film-row")
    assert "capsnet_mnist" in page.inner_text("#model")
    page.close()
