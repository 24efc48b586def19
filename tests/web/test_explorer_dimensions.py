"""What the numbers of a capsule do: their order, their names, and poses drawn at random."""

import numpy as np
import pytest
import torch
from screen import both_at_length, quiet, settled, state_of, wait_for_change

from capsnet.models.self_reading import moved_drawings
from capsnet.web.dimensions import STEPS, WORDS, measure_dimensions
from capsnet.web.nets import load_nets
from capsnet.web.samples import open_samples

DRAWS = 200  # of each class


@pytest.fixture(scope="module")
def small():
    """The network of the static page, its test images, and what is measured of its numbers."""
    net = load_nets("capsnet_small", None, None).capsnet
    samples = open_samples(net)
    return net, samples, measure_dimensions(net, samples)


@torch.inference_mode()
def test_the_first_number_changes_the_drawing_most(small):
    net, samples, known = small
    spread = torch.tensor(known.spreads)
    images = samples.images[samples.groups[3][:10]] / 255
    moved = next(moved_drawings(net.model, images[:2], spread[..., None] * STEPS))
    far = (moved.drawn - moved.before[:, None, None]).square().flatten(2).sum(2)
    own = moved.winner == 3
    assert own.any()
    order = known.order[3]
    assert sorted(order) == list(range(16))
    ranked = far[own].mean(0)[order]
    assert ranked[:4].sum() > 2 * ranked[8:].sum()


@torch.inference_mode()
def test_a_name_says_what_happens(small):
    net, samples, known = small
    e = known.names[3].index("thicker")
    v = net.model(samples.images[samples.groups[3][:8]] / 255).v
    ink = []
    for sign in (-2, 0, 2):
        moved = v.clone()
        moved[:, 3, e] += sign * known.spreads[3][e]
        drawn = net.draws.reconstruct(moved, torch.full((8,), 3))
        ink.append(float(drawn.mean()))
    assert ink[0] < ink[1] < ink[2]
    words = {word for pair in WORDS for word in pair}
    named = [name for row in known.names for name in row]
    assert set(named) <= {"", *words} and "" in named


@torch.inference_mode()
def test_poses_drawn_at_random_exist(small):
    net, samples, known = small
    z = torch.randn(DRAWS, 16, generator=torch.Generator().manual_seed(0))
    read, differ, usual = [], [], []
    for j in range(10):
        drawn = net.draws.draw(alone(known.mean[j] + z @ known.ways[j], j))
        read.append(net.model(drawn).answers.argmax(1) == j)
        differ.append(drawn.flatten(1).var(0).mean())
        own = net.model(samples.images[samples.groups[j]] / 255).v[:, j]
        usual.append(net.draws.draw(alone(own, j)).flatten(1).var(0).mean())
    assert float(torch.cat(read).double().mean()) >= 0.95
    assert sum(differ) > 0.7 * sum(usual)


def alone(poses, j):
    v = torch.zeros(len(poses), 10, 16)
    v[:, j] = poses
    return v


def test_films_are_ranked_and_named_and_random_poses_are_the_same_on_both_sides(
    visit, client, built, giving_out
):
    known = client.get("/api/dimensions").json()
    with giving_out(built) as static:
        tweaks = []
        for where in ({}, {"where": static}):
            page = visit("sample=3&which=3", **where)
            quiet(page)
            rows = page.locator(".film-row").evaluate_all(
                """rows => rows.map((row) =>
                  [+row.dataset.dim, row.querySelector("input").placeholder])"""
            )
            assert rows == [
                [e, known["names"][3][e] or f"dimension {e + 1}"] for e in known["order"][3]
            ]
            before = settled(page)
            page.get_by_role("button", name="Randomise").click()
            wait_for_change(page, before)
            tweaks.append([float(x) for x in state_of(page)["tweak"].split(",")])
    np.testing.assert_allclose(*tweaks, atol=2e-3)


@both_at_length
def test_a_link_carries_names(visit):
    page = visit("sample=3")
    page.wait_for_selector(".film-row")
    name = page.get_by_label("Your name for dimension 2", exact=True)
    suggested = name.get_attribute("placeholder")
    name.fill("tail ~ of it")
    name.blur()
    assert state_of(page)["names"] == "3.2.tail - of it"
    other = visit(page.url.partition("#")[2])  # in another browser
    kept = other.get_by_label("Your name for dimension 2", exact=True)
    assert kept.input_value() == "tail - of it"
    kept.fill("")
    kept.blur()
    assert "names" not in state_of(other) and kept.get_attribute("placeholder") == suggested
