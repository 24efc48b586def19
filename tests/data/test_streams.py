import pytest
import torch
import torch.nn.functional as F

from capsnet.data import (
    AffineStream,
    Augment,
    BalancedStream,
    CanvasStream,
    ImageStream,
    OverlapStream,
    Split,
)
from capsnet.data.sets.digits import load_digits
from capsnet.data.streams.affine import ink_boxes
from capsnet.data.streams.augmentation import draw_maps
from capsnet.data.streams.crowd import CrowdStream
from capsnet.data.streams.geometry import (
    SHARP,
    affine_grid,
    affine_theta,
    linear_map,
    pixel_centres,
    place,
    warp,
)
from capsnet.data.streams.turned import TurnedStream
from capsnet.errors import UserError


def random_split(num=24, channels=2, height=7, width=6, num_classes=4):
    images = torch.randint(1, 256, (num, channels, height, width), dtype=torch.uint8)
    return Split(images, torch.arange(num) % num_classes, tuple("abcd"[:num_classes]))


VARIED_GREY = Augment(2, flip="both", brightness=0.2, intensity=0.3)
VARIED = Augment(2, flip="both", crop=0.3, brightness=0.2, intensity=0.3, colour=0.2)
STREAMS = {
    "plain": lambda: ImageStream(random_split()),
    "shift": lambda: ImageStream(random_split(), Augment(shift=2)),
    "warp": lambda: ImageStream(random_split(), Augment(2, 15.0, 0.1, 0.1), canvas=11),
    "elastic": lambda: ImageStream(random_split(), Augment(2, 15.0, elastic=1.0), canvas=11),
    "sharp": lambda: ImageStream(random_split(), Augment(2, 15.0, contrast=1.2)),
    "varied": lambda: ImageStream(random_split(channels=3), VARIED, canvas=11),
    "balanced": lambda: BalancedStream(ImageStream(random_split(23)), "sampling"),
    "weighted": lambda: BalancedStream(ImageStream(random_split(23), VARIED_GREY), "loss"),
    "canvas": lambda: CanvasStream(random_split(), canvas=12),
    "affine": lambda: AffineStream(random_split(), num_samples=37, canvas=14),
    "overlap": lambda: OverlapStream(random_split(), num_samples=37, canvas=12, max_shift=2),
    "warped overlap": lambda: OverlapStream(
        random_split(), num_samples=37, canvas=12, max_shift=2, augment=Augment(0, 15.0, elastic=1)
    ),
}


@pytest.fixture(params=STREAMS)
def stream(request):
    return STREAMS[request.param]()


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_batch_has_the_stated_form(stream):
    num_labels = 2 if isinstance(stream, OverlapStream) else 1
    for generator in (seeded(0), None):
        plan = stream.plan(generator)
        assert all(len(values) == stream.num_samples for values in plan.values())
        batch = stream.batch({name: values[:5] for name, values in plan.items()})
        assert batch.images.shape == (5, *stream.image_shape)
        assert batch.labels.shape == (5, num_labels)
        assert batch.parts.shape == (5, num_labels, *stream.image_shape)
        assert batch.images.dtype == batch.parts.dtype == torch.float32
        assert batch.labels.dtype == torch.int64
        assert batch.images.min() >= 0 and batch.images.max() <= 1
        assert batch.labels.min() >= 0 and batch.labels.max() < len(stream.task.names)


def test_plan_is_decided_by_its_generator(stream):
    first, again, other = (stream.plan(seeded(seed)) for seed in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["index"], other["index"])
    test, test_again = stream.plan(None), stream.plan(None)
    assert all(torch.equal(test[name], test_again[name]) for name in test)


def test_batch_is_pure_and_each_sample_is_independent(stream):
    plan = stream.plan(seeded(1))
    whole = stream.batch(plan)
    torch.manual_seed(99)
    assert torch.equal(stream.batch(plan).images, whole.images)
    alone = stream.batch({name: values[3:4] for name, values in plan.items()})
    for one, all_of_them in zip(alone, whole, strict=True):
        if one is not None or all_of_them is not None:
            torch.testing.assert_close(one, all_of_them[3:4])


def test_batch_compiles_as_one_graph(stream):
    plan = stream.plan(seeded(1))
    compiled = torch.compile(stream.batch, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(plan), stream.batch(plan))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "name", ["plain", "shift", "elastic", "sharp", "varied", "weighted", "overlap"]
)
def test_batch_replays_in_a_cuda_graph(name):
    split = random_split().to("cuda")
    stream = {
        "plain": lambda: ImageStream(split, Augment(rotate=5)),
        "shift": lambda: ImageStream(split, Augment(shift=2)),
        "elastic": lambda: ImageStream(split, Augment(elastic=1.0)),
        "sharp": lambda: ImageStream(split, Augment(rotate=5, contrast=1.2)),
        "varied": lambda: ImageStream(random_split(channels=3).to("cuda"), VARIED),
        "weighted": lambda: BalancedStream(ImageStream(split, VARIED_GREY), "loss"),
        "overlap": lambda: OverlapStream(split, num_samples=24, canvas=12, max_shift=2),
    }[name]()
    assert stream.plan(None)["index"].device.type == "cuda"
    first, second = (stream.plan(torch.Generator("cuda").manual_seed(i)) for i in range(2))
    fixed = {key: values.clone() for key, values in first.items()}
    stream.batch(fixed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = stream.batch(fixed)
    for key, values in second.items():
        fixed[key].copy_(values)
    graph.replay()
    for replayed, direct in zip(out, stream.batch(second), strict=True):
        assert replayed is direct is None or torch.equal(replayed, direct)


def test_every_image_comes_once_per_epoch():
    stream = ImageStream(random_split(), Augment())
    assert sorted(stream.plan(seeded(0))["index"].tolist()) == list(range(24))


def test_evaluation_is_in_order_and_unmoved():
    split = random_split()
    for augment in (None, Augment(), Augment(rotate=10), Augment(elastic=1)):
        stream = ImageStream(split, augment)
        batch = stream.batch(stream.plan(None))
        assert torch.equal(batch.images, split.images / 255)
        assert torch.equal(batch.labels[:, 0], split.labels)


def test_shift_moves_every_pixel_exactly_and_fills_with_black():
    images = random_split(num=25).images
    shifts = torch.cartesian_prod(torch.arange(-2, 3), torch.arange(-2, 3))
    moved = place(images, shifts, (7, 6))
    for image, out, (dy, dx) in zip(images, moved, shifts.tolist(), strict=True):
        expected = torch.zeros_like(image)
        for y in range(7):
            for x in range(6):
                if 0 <= y + dy < 7 and 0 <= x + dx < 6:
                    expected[:, y + dy, x + dx] = image[:, y, x]
        assert torch.equal(out, expected)


def test_image_moved_out_of_sight_leaves_black():
    images = random_split(num=4).images
    shifts = torch.tensor([[7, 0], [0, -6], [-99, 0], [50, 50]])
    assert not place(images, shifts, (7, 6)).any()
    assert place(images, shifts, (21, 18))[:2].any()


def test_augmented_batch_is_the_planned_shift():
    split = random_split()
    stream = ImageStream(split, Augment(shift=3))
    plan = stream.plan(seeded(2))
    expected = place(split.images[plan["index"]], plan["shift"], (7, 6)) / 255
    assert torch.equal(stream.batch(plan).images, expected)
    assert plan["shift"].unique().tolist() == [-3, -2, -1, 0, 1, 2, 3]


def test_canvas_puts_the_image_in_the_middle():
    split = random_split(height=6, width=6)
    stream = ImageStream(split, canvas=10)
    images = stream.batch(stream.plan(None)).images
    assert torch.equal(images[:, :, 2:8, 2:8], split.images / 255)
    assert images.sum().item() == pytest.approx((split.images / 255).sum().item())


def test_canvas_smaller_than_the_images_is_refused():
    for make in (ImageStream, CanvasStream, AffineStream):
        with pytest.raises(UserError, match="7 or more"):
            make(random_split(), canvas=6)


def matrix(num, angle=0.0, scale=(1.0, 1.0), shear=0.0):
    return linear_map(
        torch.full((num,), angle), torch.tensor([scale] * num), torch.full((num,), shear)
    )


def test_grid_is_that_of_torch():
    theta = torch.randn(5, 2, 3)
    exact = F.affine_grid(theta.double(), [5, 1, 7, 6], align_corners=False)
    grid = affine_grid(theta, *pixel_centres((7, 6), theta.device))
    torch.testing.assert_close(grid.double(), exact, atol=1e-6, rtol=0)


def test_identity_warp_leaves_the_image():
    images = random_split().images / 255
    theta = affine_theta(matrix(24), torch.zeros(24, 2), (7, 6), (7, 6))
    torch.testing.assert_close(warp(images, theta, (7, 6)), images, atol=1e-4, rtol=0)


def test_warp_by_a_shift_is_the_exact_shift():
    images = random_split().images / 255
    shift = torch.randint(-2, 3, (24, 2))
    theta = affine_theta(matrix(24), shift.flip(1).float(), (7, 6), (11, 10))
    torch.testing.assert_close(
        warp(images, theta, (11, 10)), place(images, shift, (11, 10)), atol=1e-4, rtol=0
    )


def test_quarter_turn_is_rot90():
    images = random_split(height=6, width=6).images / 255
    theta = affine_theta(matrix(24, angle=90.0), torch.zeros(24, 2), (6, 6), (6, 6))
    torch.testing.assert_close(
        warp(images, theta, (6, 6)), images.rot90(-1, (2, 3)), atol=1e-4, rtol=0
    )


def test_scale_and_shear_move_a_pixel_where_they_should():
    image = torch.zeros(1, 1, 41, 41)
    image[0, 0, 20 + 5, 20 + 4] = 1  # 4 right of and 5 below the centre
    A = matrix(1, scale=(2.0, 1.0), shear=0.4)  # x' = 2·4 + 0.4·5, y' = 5
    out = warp(image, affine_theta(A, torch.zeros(1, 2), (41, 41), (41, 41)), (41, 41))
    assert divmod(out.argmax().item(), 41) == (25, 30)


def test_placed_digits_stay_whole_and_reach_everywhere():
    split = random_split(num=400)
    stream = CanvasStream(split, canvas=12)
    for generator in (seeded(0), None):
        plan = stream.plan(generator)
        images = stream.batch(plan).images
        whole = split.images[plan["index"]].sum((1, 2, 3))
        torch.testing.assert_close((images * 255).sum((1, 2, 3)), whole.float())
        boxes = ink_boxes(images)
        assert boxes[:, 0].unique().tolist() == list(range(6))
        assert boxes[:, 2].unique().tolist() == list(range(7))


def test_affnist_style_digits_stay_on_the_canvas_and_differ():
    split = load_digits("test").subset(range(50))
    stream = AffineStream(split, num_samples=50 * 8)
    plan = stream.plan(None)
    assert torch.bincount(plan["index"]).tolist() == [8] * 50
    images = stream.batch(plan).images
    seen = (images.amax(0)[0] > 0.02).float()
    assert seen.mean() > 0.85  # and come near every side
    ink = images.sum((1, 2, 3)) / (split.images[plan["index"]] / 255).sum((1, 2, 3))
    A = torch.linalg.inv(plan["theta"][:, :, :2] * (28 / 40))
    # Nothing is cut off: ink grows as the area does, but for the error of interpolation.
    assert ((ink / torch.linalg.det(A)) - 1).abs().max() < 0.12
    assert torch.linalg.det(A).min() > 0.8**2 and torch.linalg.det(A).max() < 1.2**2
    assert len(images.flatten(1).unique(dim=0)) == 400


def test_affnist_style_digits_can_be_kept_where_placed_ones_are():
    split = load_digits("test").subset(range(50))

    def farthest(reach):
        theta = AffineStream(split, num_samples=50 * 8, reach=reach).plan(None)["theta"]
        centre = torch.linalg.solve(theta[:, :, :2], -theta[:, :, 2:])  # of the image, edges at ±1
        return 20 * centre.abs().max().item()

    assert 5.5 < farthest(6) < 6.01
    assert farthest(None) > 9


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"shift": -1}, "shift must not be negative."),
        ({"rotate": -5.0}, "rotate must not be negative."),
        ({"scale": -0.1}, "scale must not be negative."),
        ({"scale": 1.0}, "scale must be less than 1."),
        ({"shear": -0.1}, "shear must not be negative."),
        ({"elastic": -0.5}, "elastic must not be negative."),
        ({"rotate": 15.0, "contrast": 0.0}, "contrast must be greater than 0."),
        ({"contrast": 1.2}, "contrast needs rotate"),
    ],
    ids=str,
)
def test_bounds_of_augment_are_checked(wrong, sentence):
    with pytest.raises(UserError, match=f"^{sentence}"):
        Augment(**wrong)


def test_contrast_gives_warped_digits_their_edges_back():
    split = load_digits("train").subset(range(500))
    movement = {"rotate": 15.0, "scale": 0.15, "shear": 0.15}

    def edges(**options):
        stream = ImageStream(split, Augment(2, **movement, **options))
        images = stream.batch(stream.plan(seeded(1))).images
        return images.diff(dim=2).square().sum() / whole

    whole = (split.images / 255).diff(dim=2).square().sum()
    assert 0.8 < edges() < 0.9
    assert 0.95 < edges(contrast=1.2) < 1.05


def test_height_width_and_shear_are_drawn_independently():
    A = draw_maps(4000, 0.0, 0.3, 0.4, seeded(0))
    x, y = A[:, 0, 0] - 1, A[:, 1, 1] - 1  # without rotation A = [[x, shear * y], [0, y]]
    shear = A[:, 0, 1] / A[:, 1, 1]
    for drawn, bound in ((x, 0.3), (y, 0.3), (shear, 0.4)):
        assert 0.98 * bound < drawn.abs().max() <= bound + 1e-6
        assert drawn.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    together = torch.corrcoef(torch.stack([x, y, shear])) - torch.eye(3)
    assert together.abs().max() < 0.06  # about four standard errors


def test_training_images_get_each_their_own_warp():
    stream = ImageStream(load_digits("test"), Augment(0, 0.0, 0.3, 0.4))
    theta = stream.plan(seeded(0))["theta"]
    inverse = torch.linalg.inv(theta[:, :, :2])
    ratio = inverse[:, 0, 0] / inverse[:, 1, 1]
    assert ratio.std() > 0.15 and (inverse[:, 0, 1] / inverse[:, 1, 1]).std() > 0.15


def test_default_canvases_are_those_of_the_paper():
    digits = load_digits("test")
    assert CanvasStream(digits).image_shape == (1, 40, 40)
    assert AffineStream(digits).image_shape == (1, 40, 40)
    pairs = OverlapStream(digits, 10)
    assert pairs.image_shape == (1, 36, 36) and pairs.max_shift == 4
    assert TurnedStream(digits).image_shape == (1, 28, 28)


def test_turned_digits_are_turned_by_their_label():
    stream = TurnedStream(load_digits("test").subset(range(50)))
    plan = stream.plan(None)
    batch = stream.batch(plan)
    assert batch.labels.shape == (50, 1) and batch.labels.abs().max() <= 45
    assert batch.labels.std() > 20
    still = stream.batch({**plan, "angle": torch.zeros(50)}).images
    turned = stream.batch({**plan, "angle": torch.full((50,), 90.0)}).images
    # A quarter turn clockwise brings every pixel to a pixel.
    torch.testing.assert_close(turned, still.rot90(-1, (2, 3)), atol=1e-4, rtol=0)
    assert not torch.equal(batch.images, still)
    other = stream.plan(seeded(1))
    assert not torch.equal(other["angle"], stream.plan(seeded(2))["angle"])


def test_test_plans_are_the_same_for_ever():
    split = load_digits("test").subset(torch.arange(3))
    assert CanvasStream(split).plan(None)["shift"].tolist() == [[-2, 6], [0, 2], [-2, 2]]
    pairs = OverlapStream(load_digits("test"), 3).plan(None)["index"]
    assert pairs.tolist() == [[2, 885], [0, 500], [1, 378]]


def test_two_classes_are_enough_for_pairs():
    digits = load_digits("test")
    two = digits.subset((digits.labels < 2).nonzero().flatten()[:20])
    assert OverlapStream(two, 5).batch(OverlapStream(two, 5).plan(None)).images.shape[0] == 5
    with pytest.raises(UserError, match="at least two"):
        OverlapStream(digits.subset((digits.labels == 1).nonzero().flatten()), 5)


def test_colour_of_grey_images_is_refused():
    with pytest.raises(UserError, match="three channels"):
        ImageStream(load_digits("test"), Augment(colour=0.1))


def test_turned_digits_keep_their_size():
    split = load_digits("test").subset(torch.arange(8))
    stream = TurnedStream(split)
    plan = stream.plan(None) | {"angle": torch.zeros(8)}
    pixels = split.images / 255
    torch.testing.assert_close(
        stream.batch(plan).images, (0.5 + SHARP * (pixels - 0.5)).clamp(0, 1), rtol=0, atol=1e-5
    )


def test_warped_digits_have_the_edges_of_the_originals():
    split = load_digits("train").subset(range(300))
    whole = (split.images / 255).diff(dim=2).square().sum()
    for stream in (AffineStream(split, 300), TurnedStream(split)):
        images = stream.batch(stream.plan(seeded(1))).images
        ratio = images.diff(dim=2).square().sum() / whole
        assert 0.95 < ratio < 1.05


def test_of_fewer_versions_than_images_every_epoch_shows_others():
    stream = AffineStream(load_digits("test"), 20)
    shown = [stream.plan(seeded(epoch))["index"] for epoch in range(4)]
    assert all(len(index.unique()) == 20 for index in shown)
    assert len(torch.cat(shown).unique()) > 60
    assert stream.plan(None)["index"].tolist() == [*range(20)]


def test_all_versions_of_the_affine_test():
    split = load_digits("test").subset([3, 1])
    stream = AffineStream(split)
    plan = stream.plan(None)
    assert stream.num_samples == 64 and plan["index"].bincount().tolist() == [32, 32]
    empty = torch.zeros(1, 1, 6, 9, dtype=torch.uint8)
    assert ink_boxes(empty).tolist() == [[0, 0, 0, 0]]
    empty[0, 0, 2, 3:5] = 1
    assert ink_boxes(empty).tolist() == [[2, 3, 3, 5]]


@pytest.mark.parametrize(
    "make",
    [
        lambda split: TurnedStream(split),
        lambda split: CrowdStream(split, 40, (1, 4), canvas=48, max_shift=5),
        lambda split: AffineStream(split, 40),
        lambda split: CanvasStream(split),
    ],
    ids=["turned", "crowd", "affine", "canvas"],
)
def test_nothing_is_drawn_but_by_the_generator(make):
    stream = make(load_digits("test").subset(range(40)))
    for draw in (seeded, lambda _: None):
        plans = []
        for state in (0, 1):  # whatever others have drawn
            torch.manual_seed(state)
            plans.append(stream.plan(draw(7)))
        assert plans[0].keys() == plans[1].keys()
        assert all(torch.equal(plans[0][name], plans[1][name]) for name in plans[0])
    other = stream.plan(seeded(8))
    assert all(not torch.equal(stream.plan(seeded(7))[name], other[name]) for name in other)


def test_images_that_are_not_square_are_placed_and_warped_by_their_own_sides():
    image = torch.zeros(1, 1, 10, 20, dtype=torch.uint8)
    image[0, 0, 0, 0] = image[0, 0, -1, -1] = 255  # ink in opposite corners
    split = Split(image, torch.tensor([0]), ("a", "b"))
    placed = CanvasStream(split.subset([0] * 200), canvas=24)
    plan = placed.plan(seeded(0))
    assert [*map(int, plan["shift"].amin(0))] == [-7, -2] and plan["shift"].amax(0).tolist() == [
        7,
        2,
    ]
    boxes = ink_boxes(placed.batch(plan).images)
    assert (boxes[:, 1] - boxes[:, 0] == 10).all() and (boxes[:, 3] - boxes[:, 2] == 20).all()
    # As far as the ink has room, to all sides: the corners touch the edges and never leave.
    warped = AffineStream(split, num_samples=400, canvas=40)
    images = warped.batch(warped.plan(None)).images
    assert (images.flatten(1).sum(1) > 0.5).all()
    low, high = ink_boxes(images > 0.3).view(-1, 2, 2).float().unbind(2)
    assert low.amin(0).max() <= 2 and high.amax(0).min() >= 38


def test_angles_are_drawn_up_to_a_right_angles_half():
    stream = TurnedStream(load_digits("test"))
    assert stream.task.ranges == ((-45.0, 45.0),) and stream.task.names == ("rotation",)
    angle = stream.plan(seeded(0))["angle"]
    assert -45 <= angle.min() < -44 and 44 < angle.max() <= 45 and angle.mean().abs() < 3


@pytest.mark.parametrize("side", [6, 7, 9, 10, 13])
def test_what_cannot_be_in_the_middle_is_nearer_to_the_top_and_left(side):
    images = random_split(num=3, height=6, width=5).images
    placed = place(images, torch.zeros(3, 2, dtype=torch.long), (side, side))
    top, left = (side - 6) // 2, (side - 5) // 2
    assert torch.equal(placed[:, :, top : top + 6, left : left + 5], images)
    assert placed.sum() == images.sum()
