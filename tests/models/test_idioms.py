"""What people do with any nn.Module holds for ours: hooks, copies, types, transforms, export."""

import copy
import io
import pickle

import pytest
import torch

from capsnet.models import create_model, list_models

SMALL = {"conv_channels": 8, "primary_types": 4, "decoder": (16,)}
OTHERS = {
    "capsnet_modern_small": {"channels": (4, 8), "primary_types": 3, "decoder": (16,)},
    "deepcaps": {"conv_channels": 8, "types": 4, "class_dim": 8, "decoder_width": 8},
    "efficient_capsnet": {"channels": (8, 8), "kernels": (5, 3), "strides": (2, 2)},
}
MODELS = [name for name in list_models() if name.endswith(("small", "numbers")) or name in OTHERS]


def build(name, **options):
    torch.manual_seed(0)
    small = {} if name.startswith("cnn") else OTHERS.get(name, SMALL)
    return create_model(name, **small, **options).eval()


@pytest.fixture(
    params=[pytest.param(m, marks=pytest.mark.long if m == "deepcaps" else ()) for m in MODELS]
)
def model(request):
    return build(request.param)


def test_hooks_fire_on_every_layer_that_has_weights(model):
    seen = set()
    for key, module in model.named_modules():
        module.register_forward_hook(lambda *_, key=key: seen.add(key))
    output = model(torch.rand(2, 1, 28, 28))
    if model.draws is not None:
        model.draws.reconstruct(output.v)
    wanted = {k for k, m in model.named_modules() if list(m.parameters(recurse=False))}
    assert wanted <= seen


def test_copies_and_pickles_are_the_same_model(model):
    images = torch.rand(2, 1, 28, 28)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (twin.name, twin.options, twin.task) == (model.name, model.options, model.task)
        assert torch.equal(twin(images).v, model(images).v)


def test_meta_device(model):
    with torch.device("meta"):
        ghost = build(model.name)
    output = ghost(torch.rand(2, 1, 28, 28, device="meta"))
    assert output.v.shape == model(torch.rand(2, 1, 28, 28)).v.shape


def test_an_empty_batch(model):
    images = torch.rand(0, 1, 28, 28)
    output = model(images)
    assert output.v.shape[0] == output.answers.shape[0] == 0
    if model.draws is not None:
        assert model.draws.reconstruct(output.v).shape == (0, 1, 28, 28)
    output.answers.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_models_of_other_types_answer_draw_and_trace(model, dtype):
    images = torch.rand(2, 1, 28, 28)
    expected = model(images)
    other = copy.deepcopy(model).to(dtype)
    output = other(images.to(dtype))
    assert output.v.dtype == output.answers.dtype == dtype
    tolerance = {"atol": 0.02 * float(expected.answers.detach().abs().max()), "rtol": 0.1}
    torch.testing.assert_close(output.answers.float(), expected.answers, **tolerance)
    if other.draws is not None and other.traced is not None:
        assert other.draws.reconstruct(output.v).dtype == dtype
        assert other.traced.trace(images.to(dtype)).v.dtype == dtype
    output.answers.sum().backward()
    assert next(other.parameters()).grad.dtype == dtype


def test_functional_transforms(model):
    params = dict(model.named_parameters())
    images = torch.rand(3, 1, 28, 28)

    def answers(params, image):
        return torch.func.functional_call(model, params, (image[None],)).answers[0]

    each = torch.func.vmap(answers, (None, 0))(params, images)
    torch.testing.assert_close(each, model(images).answers, rtol=1e-4, atol=1e-5)
    grads = torch.func.grad(lambda p: answers(p, images[0]).sum())(params)
    model(images[:1]).answers.sum().backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(grads[name], p.grad, rtol=1e-3, atol=1e-5)
    jacobian = torch.func.jacrev(lambda image: answers(params, image))(images[0])
    assert jacobian.shape == (*each.shape[1:], 1, 28, 28)


@pytest.mark.parametrize("grad", [True, False])
def test_export_with_a_dynamic_batch(model, grad):
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.set_grad_enabled(grad):
        program = torch.export.export(
            model, (torch.rand(4, 1, 28, 28),), dynamic_shapes={"images": {0: batch}}
        )
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    images = torch.rand(7, 1, 28, 28)
    said, expected = again(images), model(images)
    assert type(said) is type(expected)
    torch.testing.assert_close(said.v, expected.v, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(said.answers, expected.answers, rtol=1e-4, atol=1e-5)


def test_trace_to_torchscript(model):
    images = torch.rand(3, 1, 28, 28)
    traced = torch.jit.trace(model, images, check_trace=False)
    other = torch.rand(5, 1, 28, 28)
    torch.testing.assert_close(traced(other)[1], model(other).answers, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_compile_in_one_graph():
    pytest.importorskip("torch._inductor")
    model = build("capsnet_small")
    images = torch.rand(3, 1, 28, 28)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    results = []
    for f in (compiled, model):
        output = f(images)
        model.zero_grad()
        (output.answers.sum() + model.reconstruct(output.v, 3).sum()).backward()
        results.append([output.v, *(p.grad.clone() for p in model.parameters())])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
