import pytest
import torch

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.layers.slots.places import with_places
from capsnet.models import Progress, create_model
from capsnet.ops import margin_loss, reconstruction_loss
from capsnet.tasks import Batch
from capsnet.training.config import TrainConfig
from capsnet.training.setup import build_model

SMALL = {"channels": (8, 8), "primary_types": 4, "decoder": (16,), "image_shape": (1, 20, 20)}
BINDINGS = ("synchrony", "dynamic", "attention")


def build(binding="synchrony", **options):
    torch.manual_seed(0)
    return create_model("capsnet_slots", binding=binding, **{**SMALL, **options})


@pytest.mark.parametrize("binding", BINDINGS)
def test_every_capsule_is_shared_out_whole(binding):
    model = build(binding).eval()
    u = model.primary(torch.rand(2, 1, 20, 20))
    v, shares = model.slots(u)
    assert v.shape == (2, 3, 10, 16) and shares.shape == (*u.shape[:2], 3)
    torch.testing.assert_close(shares.sum(-1), torch.ones(u.shape[:2]))


@pytest.mark.parametrize("binding", BINDINGS)
def test_votes_are_alike_at_all_places_but_for_the_place(binding):
    model = build(binding).eval()
    rows, columns, types = model.grid
    u = torch.zeros(1, rows, columns, types, 8)
    u[:, 1:3, 2:4] = torch.randn(1, 2, 2, types, 8)
    moved = u.roll((2, -1), dims=(1, 2))
    with torch.no_grad():
        for name in ("W", "vote", "pull", "key"):  # forget the place
            if hasattr(model.slots, name):
                getattr(model.slots, name)[..., -2:] = 0
    here, there = (model.slots(x.flatten(1, 3)) for x in (u, moved))
    torch.testing.assert_close(there[0], here[0])
    shares = here[1].view(1, rows, columns, types, -1).roll((2, -1), dims=(1, 2))
    torch.testing.assert_close(there[1].view_as(shares), shares)


def test_a_capsule_gets_its_column_and_row_times_its_length():
    u = torch.zeros(1, 2 * 3 * 2, 4)
    u[0, -1, 1] = 0.5  # last row, last column, last type
    u[0, 0, 2] = -2.0
    placed = with_places(u, (2, 3, 2))
    assert placed.shape == (1, 6, 2, 6)
    assert placed[0, 5, 1].tolist() == [0, 0.5, 0, 0, 0.5, 0.5]
    assert placed[0, 0, 0].tolist() == [0, 0, -2, 0, -2, -2]
    assert placed[0, 1:5].abs().sum() == 0


@pytest.mark.parametrize("binding", BINDINGS)
def test_any_batch_can_be_exported(binding):
    model = build(binding).eval()
    images = torch.rand(5, 1, 20, 20)
    any_batch = ({0: torch.export.Dim("N", min=2)},)
    exported = torch.export.export(model, (images,), dynamic_shapes=any_batch)
    torch.testing.assert_close(exported.module()(images[:2]), model(images[:2]))


def test_answers_count_slots_that_are_long():
    model = build()
    v = torch.zeros(1, 3, 10, 16)
    v[0, 0, 7, 0] = v[0, 2, 7, 1] = v[0, 1, 4, 2] = 0.9
    output = model.told(v)
    assert output.answers.round()[0].tolist() == [0, 0, 0, 0, 1, 0, 0, 2, 0, 0]
    assert torch.equal(model.in_slots(output.v), v)
    assert not model.task.misses(output.answers, torch.tensor([[7, 4, 7]])).any()
    assert model.task.misses(output.answers, torch.tensor([[7, 4, -1]])).all()


def test_loss_does_not_depend_on_the_order_of_slots_or_objects():
    stream = open_data("crowd_digits", "test", num_samples=6)
    model = build(image_shape=(1, 48, 48))
    batch = stream.batch(stream.plan(None))
    output, progress = model(batch.images), Progress.at(0, 1)
    loss = model.loss(output, batch, progress)
    order = torch.tensor([2, 0, 1])
    mixed = model.told(model.in_slots(output.v)[:, order])
    torch.testing.assert_close(model.loss(mixed, batch, progress), loss)
    turned = Batch(batch.images, batch.labels[:, order], batch.parts[:, order])
    torch.testing.assert_close(model.loss(output, turned, progress), loss)


def test_one_slot_and_one_object_is_the_papers_loss():
    model = build(num_slots=1)
    images = torch.rand(2, 1, 20, 20)
    output = model(images)
    labels = torch.tensor([[3], [5]])
    loss = model.loss(output, Batch(images, labels, images[:, None]), Progress.at(0, 1))
    lengths = output.v.norm(dim=-1)
    pictures = model.decoder(output.v, labels[:, 0])
    expected = margin_loss(lengths, labels[:, 0]) + 0.0005 * reconstruction_loss(pictures, images)
    torch.testing.assert_close(loss, expected)


def test_an_empty_slot_should_be_short():
    model = build(decoder=())
    v = torch.zeros(1, 3, 10, 16)
    v[0, 0, 7, 0] = 0.9
    batch = Batch(torch.zeros(1, 1, 20, 20), torch.tensor([[7, -1, -1]]))
    assert model.loss(model.told(v), batch, Progress.at(0, 1)) == 0
    v[0, 1, 2, 0] = 0.3
    loss = model.loss(model.told(v), batch, Progress.at(0, 1))
    torch.testing.assert_close(loss, torch.tensor(0.5 * 0.2**2))


def test_phases_that_do_not_move_read_the_start():
    still = build(num_steps=0).eval()
    u = still.primary(torch.rand(2, 1, 20, 20))
    start = still.slots.swinging(u)[0]
    x = torch.nn.functional.normalize(start, dim=-1)
    torch.testing.assert_close(still.slots(u), still.slots.read(u, x))
    trace = build().eval().slots.trace(u)
    assert trace.x.shape == (9, 2, u.shape[1], 4)


def test_what_its_drawings_weigh_can_be_said_to_a_run():
    stream = open_data("crowd_digits", "train", num_samples=20)
    options = ("channels=(8, 8)", "primary_types=4", "decoder=(16,)")
    run = {"model": "capsnet_slots", "data": "crowd_digits", "reconstruction_weight": 0.02}
    model = build_model(TrainConfig(**run, options=options), stream)
    assert model.reconstruction_weight == 0.02
    with pytest.raises(UserError, match="draws no pictures"):
        build_model(TrainConfig(**run, options=(*options[:2], "decoder=()")), stream)


def test_what_cannot_be_is_said():
    with pytest.raises(UserError, match="num_steps=1"):
        build("dynamic", num_steps=0)
    with pytest.raises(UserError, match="leave num_moves out"):
        build("attention", num_moves=2)
    model = build(num_slots=2)
    images = torch.rand(1, 1, 20, 20)
    batch = Batch(images, torch.tensor([[1, 2, 3]]))
    with pytest.raises(UserError, match="num_slots=3"):
        model.loss(model(images), batch, Progress.at(0, 1))
