import pytest
import torch
import torch.nn.functional as F

from capsnet import create_model
from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.layers import Capsules, ConvCaps
from capsnet.layers.routings import IdaRouting
from capsnet.models import Progress
from capsnet.models.ida_capsnet import row
from capsnet.tasks import Batch

SMALL = {"channels": (4, 8), "blocks": (1, 1), "types": 3, "dim": 4}


def build(shape=(1, 16, 19), **options):
    torch.manual_seed(0)
    model = create_model("ida_capsnet", image_shape=shape, num_classes=3, **SMALL, **options)
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
    return model.eval()


def votes(caps, lower):
    """The children of each place [N, P, I], one after the other, and their votes."""
    if caps.windows is None:
        return caps.votes(row(lower).flatten(1, 3)[:, None])
    return caps.votes(caps.windows.gather(lower))


def by_hand(model, images):
    """All layers at once, as the authors write it: every layer in every sweep."""
    layers = (model.caps1, model.caps2, model.class_caps)
    primary = model.primary(images)

    def update(caps, lower, upper):
        u_hat = votes(caps, lower)
        b = torch.zeros(u_hat.shape[:-1])
        if upper is not None:
            v = upper.reshape(len(u_hat), u_hat.shape[1], u_hat.shape[3], 4)
            b = (u_hat * v.unsqueeze(2)).sum(-1) / 2
        s = (b.softmax(-1)[..., None] * u_hat).sum(2)
        return caps.routing.norm(s).unflatten(1, caps.places)

    values = [primary]
    for caps in layers:
        values.append(update(caps, values[-1], None))
    for _ in range(model.num_iters - 1):
        new = [update(caps, values[l], values[l + 1]) for l, caps in enumerate(layers)]
        values = [primary, *new]
    return values[-1][:, 0, 0]


@pytest.mark.parametrize("num_iters", [1, 2, 3, 4, 5])
def test_all_layers_are_updated_at_once(num_iters):
    model, images = build(num_iters=num_iters), torch.rand(2, 1, 16, 19)
    results = []
    for v in (model(images).v, by_hand(model, images)):
        grads = torch.autograd.grad((v * torch.arange(4)).sum(), list(model.parameters())[:-2])
        results.append((v, *grads))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_sweeps_differ_from_layers_one_by_one():
    images = torch.rand(2, 1, 16, 19)
    for num_iters in (1, 3):
        one, other = (
            build(num_iters=num_iters, sweeps=x)(images).v for x in ("concurrent", "sequential")
        )
        assert torch.allclose(one, other, atol=1e-5) == (num_iters == 1)


@pytest.mark.parametrize("compete", ["place", "map"])
@pytest.mark.parametrize("sweeps", ["concurrent", "sequential"])
def test_trace_answers_and_loss(sweeps, compete):
    model = build(num_iters=3, sweeps=sweeps, compete=compete)
    images = torch.rand(3, 1, 16, 19)
    output, trace = model(images), model.trace(images)
    assert output.v.shape == (3, 3, 4) and trace.c.shape[:2] == (3, 3)
    assert trace.routing == "inverted attention"
    torch.testing.assert_close(trace.v[-1], output.v)
    torch.testing.assert_close(trace.c.sum(dim=-1), torch.ones(trace.c.shape[:-1]))
    torch.testing.assert_close(model(images[1:2]).v, output.v[1:2], rtol=1e-4, atol=1e-5)
    logits = output.v @ model.logit.weight[0] + model.logit.bias
    torch.testing.assert_close(output.answers, logits.softmax(dim=1))
    labels = torch.tensor([0, 2, 1])
    loss = model.loss(output, Batch(images, labels[:, None]), Progress.at(0, 1))
    torch.testing.assert_close(loss, F.cross_entropy(logits, labels))


def test_who_competes_matters():
    images = torch.rand(2, 1, 16, 19)
    one, other = (build(num_iters=3, compete=x)(images).v for x in ("place", "map"))
    assert not torch.allclose(one, other, atol=1e-4)


def test_weights_start_as_the_authors_do():
    torch.manual_seed(0)
    model = create_model("ida_capsnet")
    for caps, M, N in (
        (model.caps1, 32, 32 * 9),
        (model.caps2, 32, 32 * 9),
        (model.class_caps, 10, 800),
    ):
        assert caps.W.std().item() == pytest.approx((M / (4 * N)) ** 0.5, rel=0.02)
    assert model.caps1.places == (7, 7) and model.caps2.places == (5, 5)


def test_no_votes_are_kept_for_the_backward_pass():
    model, images = build(num_iters=4), torch.rand(4, 1, 16, 19)
    num_votes = votes(model.caps1, model.primary(images)).numel()
    kept = {}

    def pack(x):
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
        return x

    primary = model.primary(images).detach().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        v = model._to_classes(primary)[-1].after
    assert max(kept.values()) < num_votes / 3
    v.sum().backward()


def test_routing_in_any_layer():
    caps = ConvCaps((5, 4), 2, 3, IdaRouting(9, num_iters=3), lower_dim=9, dim=9)
    lower = Capsules(torch.randn(2, 5, 4, 2, 9), torch.rand(2, 5, 4, 2))
    upper = caps(lower)
    assert upper.pose.shape == (2, 3, 2, 3, 9) and (upper.a == 1).all()
    torch.testing.assert_close(caps.trace(lower).v[-1].view_as(upper.pose), upper.pose)


@pytest.mark.parametrize("shape", [(1, 13, 13), (3, 14, 40), (2, 31, 13)])
def test_any_size_and_channels(shape):
    assert build(shape=shape)(torch.rand(2, *shape)).answers.isfinite().all()


def test_blank_and_huge_pictures_have_numbers_as_answers():
    model = build(num_iters=3)
    for images in (torch.zeros(2, 1, 16, 19), torch.full((2, 1, 16, 19), 1e6)):
        output = model(images)
        loss = model.loss(output, Batch(images, torch.tensor([[0], [1]])), Progress.at(0, 1))
        grads = torch.autograd.grad(loss, list(model.parameters()))
        assert all(x.isfinite().all() for x in (output.v, loss, *grads))


def test_one_batch_can_be_overfitted():
    torch.manual_seed(0)
    digits = open_data("digits", "train")
    batch = digits.batch({k: x[:16] for k, x in digits.plan(None).items()})
    sizes = {"channels": (8, 16), "blocks": (1, 1), "types": 4, "num_iters": 3}
    model = create_model("ida_capsnet", image_shape=(1, 28, 28), **sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(30):
        output = model(batch.images)
        loss = model.loss(output, batch, Progress.at(0, 30))
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    assert (output.answers.argmax(dim=1) == batch.labels[:, 0]).all()
    assert loss < 0.5


def test_half_precision_routes_in_fp32():
    model, images = build(num_iters=3), torch.rand(2, 1, 16, 19)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(images)
    assert output.v.dtype == output.answers.dtype == torch.float32
    torch.testing.assert_close(output.answers, model(images).answers, rtol=0.1, atol=0.05)


def test_compiles_as_one_graph():
    model, images = build(num_iters=3), torch.rand(2, 1, 16, 19)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images).v, model(images).v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sweeps", ["concurrent", "sequential"])
def test_other_types_devices_and_no_images(sweeps):
    images = torch.rand(2, 1, 16, 19)
    model = build(num_iters=3, sweeps=sweeps)
    expected = model(images).answers
    assert model(images[:0]).answers.shape == (0, 3)
    torch.testing.assert_close(model.double()(images.double()).answers.float(), expected)
    half = model.bfloat16()(images.bfloat16()).answers.float()
    torch.testing.assert_close(half, expected, rtol=0.2, atol=0.1)
    with torch.device("meta"):
        assert build(num_iters=3, sweeps=sweeps)(torch.rand(2, 1, 16, 19)).answers.shape == (2, 3)


def test_exports_for_any_batch():
    model, images = build(num_iters=3), torch.rand(4, 1, 16, 19)
    any_batch = ({0: torch.export.Dim("N", min=2)},)
    exported = torch.export.export(model, (images,), dynamic_shapes=any_batch).module()
    torch.testing.assert_close(exported(images[:3]).answers, model(images[:3]).answers)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_iters": 0}, "num_iters must be at least 1"),
        ({"dim": 8}, "no square matrix"),
        ({"image_shape": (3, 12, 32)}, "at least 13×13 pixels"),
        ({"image_shape": (3, 4, 4)}, "at least 13×13 pixels"),
        ({"sweeps": "both"}, "no sweeps called 'both'"),
        ({"channels": (64,)}, "longer by"),
    ],
)
def test_mistakes_are_sentences(options, sentence):
    with pytest.raises(UserError, match=sentence):
        create_model("ida_capsnet", **options)
    with pytest.raises(UserError, match="num_iters must be at least 1"):
        IdaRouting(num_iters=0)
