"""A trained model as steps and tables that the explorer's page runs by itself, without Python.

program = browser_program(model); program.steps[0], program.tables["0.weight"]

Each step takes the map [C, H, W], the list or the capsules that the one before gave. Tables have
the layout that the page works in: weights are [inputs, outputs], so that an input that is zero, as
most are after a ReLU, leaves out its row.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers import ClassCaps, Decoder, PrimaryCaps
from capsnet.layers.conv_decoder import ConvDecoder
from capsnet.models import Model

Step = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Program:
    """What the page does with an image, how it draws capsules (None: not), the tables of both."""

    steps: list[Step]
    drawing: list[Step] | None
    tables: dict[str, Tensor] = field(repr=False)


@torch.no_grad()
def browser_program(model: Model) -> Program:
    """Return a model as a program for the page; a UserError if it has a layer that is not known.

    Example:
        >>> program = browser_program(create_model("cnn_small").eval())
        >>> [step["do"] for step in program.steps]
        ['conv', 'pool', 'conv', 'pool', 'dense', 'dense', 'softmax']
    """
    if model.chained is None:
        raise _unknown(model, "its layers are no chain")
    layers = model.chained.chain()
    if not _is_true(model, layers):
        raise _unknown(model, "it computes more than its layers do")
    writer = _Writer(model)
    steps = writer.write(layers)
    drawing = None
    if model.draws is not None:
        drawing = writer.write(_drawing_layers(model))
    return Program(steps, drawing, writer.tables)


def _is_true(model: Model, layers: Iterable[nn.Module]) -> bool:
    """Whether the layers alone give what the model gives: a class made from another may differ."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, *model.image_shape, generator=generator)
    output = model(images)
    x = images
    for layer in layers:
        x = layer.eval()(x)
    told = output.v if model.traced is not None else output.answers
    return x.shape == told.shape and torch.allclose(x, told, rtol=1e-4, atol=1e-5)


def _drawing_layers(model: Model) -> list[nn.Module]:
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, Decoder):
        raise _unknown(model, f"it draws with a {type(decoder).__name__}")
    if isinstance(decoder.layers, ConvDecoder):
        return [*decoder.layers.start, *decoder.layers.layers]
    return list(decoder.layers.children())


def _unknown(model: Model, why: str) -> UserError:
    return UserError(
        f"The page cannot run {model.name} without a server: {why}. Leave --static out, or give a "
        "CapsNet with the paper's routing."
    )


class _Writer:
    """Writes layers as steps and collects their tables."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tables: dict[str, Tensor] = {}
        self.steps: list[Step] = []

    def write(self, layers: Iterable[nn.Module]) -> list[Step]:
        """Return the steps of some layers."""
        self.steps = []
        for layer in layers:
            for kind, work in WORKS.items():
                if isinstance(layer, kind):
                    work(self, layer)
                    break
            else:
                raise _unknown(self.model, f"it has a {type(layer).__name__}")
        return self.steps

    def add(self, do: str, tables: Mapping[str, Tensor | None] | None = None, **facts: Any) -> Step:
        """Add a step; its tables get names of their own."""
        step: Step = {"do": do, **facts}
        for name, table in (tables or {}).items():
            if table is not None:
                step[name] = f"{len(self.tables)}.{name}"
                self.tables[step[name]] = narrow(table)
        self.steps.append(step)
        return step

    def conv(self, layer: nn.Conv2d) -> None:
        """Add a convolution with zeros around."""
        padding = layer.padding
        plain = layer.groups == 1 and set(layer.dilation) == {1} and layer.padding_mode == "zeros"
        if not plain or isinstance(padding, str) or len(set(padding)) != 1:
            raise _unknown(self.model, f"it has the convolution {layer}")
        scale = getattr(layer, "scale", 1.0)
        self.add(
            "conv",
            {
                "weight": layer.weight.permute(1, 2, 3, 0),
                "scale": None if scale == 1 else torch.full((layer.out_channels,), scale),
                "shift": layer.bias,
            },
            kernel=list(layer.kernel_size),
            stride=list(layer.stride),
            padding=padding[0],
            relu=bool(getattr(layer, "relu", False)),
        )

    def spread(self, layer: nn.ConvTranspose2d) -> None:
        """Add a transposed convolution: zeros between the pixels, then a convolution."""
        more = [*layer.output_padding]
        if layer.kernel_size != (3, 3) or layer.padding != (1, 1) or layer.groups != 1:
            raise _unknown(self.model, f"it has the convolution {layer}")
        if layer.stride != (1, 1):
            self.add("spread", stride=list(layer.stride), more=more)
        self.add(
            "conv",
            {"weight": layer.weight.flip(2, 3).permute(0, 2, 3, 1), "shift": layer.bias},
            kernel=[3, 3],
            stride=[1, 1],
            padding=1,
            relu=False,
        )

    def norm(self, layer: nn.BatchNorm2d) -> None:
        """Add what a norm of batches is after training: a factor and a summand of each channel."""
        assert layer.running_mean is not None and layer.running_var is not None
        scale = (layer.running_var + layer.eps).rsqrt()
        scale = scale if layer.weight is None else scale * layer.weight
        shift = -layer.running_mean * scale
        shift = shift if layer.bias is None else shift + layer.bias
        self.add("norm", {"scale": scale, "shift": shift}, relu=False)

    def dense(self, layer: nn.Linear) -> None:
        """Add a layer that connects all with all."""
        self.add("dense", {"weight": layer.weight.T, "shift": layer.bias}, relu=False)

    def relu(self, layer: nn.Module) -> None:
        """Make the ReLU a part of what it follows."""
        if not self.steps or "relu" not in self.steps[-1]:
            raise _unknown(self.model, "a ReLU stands alone")
        self.steps[-1]["relu"] = True

    def pool(self, layer: nn.MaxPool2d) -> None:
        """Add the largest of each square."""
        if layer.stride != layer.kernel_size or layer.padding or layer.ceil_mode:
            raise _unknown(self.model, f"it has {layer}")
        self.add("pool", size=layer.kernel_size)

    def mean(self, layer: nn.AdaptiveAvgPool2d) -> None:
        """Add the mean over the whole map."""
        if layer.output_size != 1:
            raise _unknown(self.model, f"it has {layer}")
        self.add("mean")

    def capsules(self, layer: PrimaryCaps) -> None:
        """Add a convolution whose channels are squashed as capsules."""
        if not isinstance(layer.conv, nn.Conv2d):
            raise _unknown(self.model, "its capsules are those of no picture")
        self.conv(layer.conv)
        self.add("squash", dim=layer.dim)

    def route(self, layer: ClassCaps) -> None:
        """Add routing-by-agreement."""
        I, J, E, D = layer.W.shape
        tables = {"weight": layer.W, "shift": layer.bias}
        self.add("route", tables, sizes=[I, J, E, D], iters=layer.num_iters, leaky=layer.leaky)


def narrow(table: Tensor) -> Tensor:
    """Return a table in half precision where nothing is lost by it, else in single precision."""
    half = table.half()
    return (half if torch.equal(half.float(), table.float()) else table.float()).contiguous()


def _nothing(writer: _Writer, layer: Any) -> None:
    """Add no step."""


WORKS: dict[type[nn.Module], Callable[[_Writer, Any], Any]] = {
    nn.Conv2d: _Writer.conv,
    nn.ConvTranspose2d: _Writer.spread,
    nn.BatchNorm2d: _Writer.norm,
    nn.Linear: _Writer.dense,
    nn.ReLU: _Writer.relu,
    nn.MaxPool2d: _Writer.pool,
    nn.AdaptiveAvgPool2d: _Writer.mean,
    nn.Sigmoid: lambda writer, layer: writer.add("sigmoid"),
    nn.Softmax: lambda writer, layer: writer.add("softmax"),
    nn.Unflatten: lambda writer, layer: writer.add("fold", shape=list(layer.unflattened_size)),
    PrimaryCaps: _Writer.capsules,
    ClassCaps: _Writer.route,
    nn.Flatten: _nothing,
    nn.Dropout: _nothing,
    nn.Identity: _nothing,
}
