import pytest
import torch
from routed_inputs import inputs, small_bias

from capsnet.ops import dynamic_routing
from capsnet.ops.dynamic import chunked

# The vote-free version against fp64 truth: its error may be twice that of the reference in fp32.


def errors(u, W, bias, truth, **options):
    arguments = [x.detach().float().requires_grad_() for x in (u, W, bias)]
    v = dynamic_routing(*arguments[:2], bias=arguments[2], **options)
    found = [v, *torch.autograd.grad((v * v.detach().roll(1, -1)).sum(), arguments)]
    return [(a.double() - b).abs().max() for a, b in zip(found, truth, strict=True)]


def check_chunked(u, W, bias, **options):
    arguments = [x.double().requires_grad_() for x in (u, W, bias)]
    v = dynamic_routing(*arguments[:2], bias=arguments[2], backend="reference", **options)
    truth = [v, *torch.autograd.grad((v * v.detach().roll(1, -1)).sum(), arguments)]
    reference = errors(u, W, bias, truth, backend="reference", **options)
    without_votes = errors(u, W, bias, truth, backend="chunked", **options)
    for k, (ours, theirs, true) in enumerate(zip(without_votes, reference, truth, strict=True)):
        atol = 2e-6 * max(true.abs().max().item(), 1e-6)
        assert ours <= (2 if k == 0 else 3) * theirs + atol, ("v", "du", "dW", "dbias")[k]


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("gradient", ["full", "last"])
@pytest.mark.parametrize(
    ("N", "I", "J", "E", "D"),
    [
        (1, 1, 1, 2, 2),
        (3, 63, 2, 5, 3),
        (2, 63, 47, 16, 8),
        (2, 1153, 10, 16, 8),
        (5, 7, 10, 32, 32),
        (1, 1153, 1, 3, 17),
    ],
)
def test_chunked_is_as_exact_as_the_reference(N, I, J, E, D, gradient, leaky):
    u, W = inputs(N, I, J, E, D, torch.float32)
    W = W * (3 / I**0.5)
    check_chunked(u, W, 0.1 * torch.ones(J, E), gradient=gradient, leaky=leaky)


@pytest.mark.parametrize("elements", [1, 100, 700])
def test_chunks_of_any_size_give_the_same(elements, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", elements)
    u, W = inputs(3, 23, 5, 4, 3, torch.float32)
    check_chunked(u, W, 0.1 * torch.ones(5, 4), num_iters=4)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 30.0])
def test_chunked_is_exact_at_tiny_and_huge_input(scale):
    u, W = inputs(3, 13, 5, 4, 3, torch.float32)
    check_chunked(u * scale, W, torch.zeros(5, 4))


def test_chunked_takes_any_strides():
    u, W = inputs(3, 23, 5, 4, 6, torch.float32)
    u_strided = u.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    W_strided = W.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    assert not u_strided.is_contiguous() and not W_strided.is_contiguous()
    v = dynamic_routing(u, W, backend="chunked")
    assert torch.equal(dynamic_routing(u_strided, W_strided, backend="chunked"), v)
    check_chunked(u[:, ::2, 1:4], W[::2, ..., 1:4], torch.zeros(5, 4))


def test_chunked_keeps_no_votes_for_the_backward_pass():
    N, I, J, E, D = 16, 200, 10, 16, 8
    u, W = inputs(N, I, J, E, D, torch.float32)

    def kept(backend):
        sizes = {}

        def pack(x):
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            v = dynamic_routing(u.requires_grad_(), W.requires_grad_(), backend=backend)
        v.sum().backward()
        return sum(sizes.values()) - W.numel()

    votes = N * I * J * E
    assert kept("reference") >= votes  # else this would measure nothing
    assert kept("chunked") < votes / 5
    assert kept("auto") < votes / 5


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_autocast_does_not_reach_the_chunked_sums(where):
    u, W = (x.requires_grad_() for x in inputs(2, 300, 3, 8, 8, torch.float32))

    def run(forward, backward):
        with torch.autocast("cpu", torch.bfloat16, enabled=forward):
            v = dynamic_routing(u, W, backend="chunked")
        with torch.autocast("cpu", torch.bfloat16, enabled=backward):
            return v, *torch.autograd.grad(v, (u, W), torch.ones_like(v))

    for x, y in zip(run(where == "forward", where == "backward"), run(False, False), strict=True):
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)


def test_chunked_operators_are_registered_properly():
    u, W, bias = (x.requires_grad_() for x in (*inputs(), small_bias()))
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    arguments = (u, W, bias, 2, True, False)
    torch.library.opcheck(chunked.chunked_forward, arguments, test_utils=tests)
    with torch.no_grad():
        v, *saved = chunked.chunked_forward(*arguments)
        arguments = (v, u.detach(), W.detach(), *saved, True, False)
    torch.library.opcheck(chunked.chunked_backward, arguments, test_utils=tests)
