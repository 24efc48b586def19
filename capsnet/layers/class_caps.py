"""ClassCaps (the paper's DigitCaps): one capsule per class, fed by routing-by-agreement.

v = ClassCaps(num_lower=1152, lower_dim=8, num_classes=10, dim=16)(u)
"""

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers.primary_caps import as_capsules
from capsnet.ops import RoutingTrace, dynamic_routing, routing_trace
from capsnet.ops.dynamic import Backend, Gradient


class ClassCaps(nn.Module):
    """Capsules u [N, I, D] -> v [N, J, E] by `capsnet.ops.dynamic_routing`.

    A head for any backbone, and a layer of any stack: it also takes tokens [N, T, k * D] and
    feature maps [N, k * D, H, W], whose channels at each position are k capsules of D.

    Args:
        num_lower: I.
        lower_dim: D.
        num_classes: J.
        dim: E.
        num_iters: iterations of the routing.
        routing_bias: learn a bias [J, E], added to s in every iteration.
        gradient: as in `capsnet.ops.dynamic_routing`, and so are leaky and backend.
        leaky: give each lower capsule one more parent, which is dropped.
        backend: what runs.
        std: of W at the start.

    Example:
        >>> head = ClassCaps(num_lower=49 * 64, lower_dim=8, num_classes=5)
        >>> head(torch.rand(2, 512, 7, 7)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        num_lower: int,
        lower_dim: int,
        num_classes: int = 10,
        dim: int = 16,
        num_iters: int = 3,
        routing_bias: bool = False,
        gradient: Gradient = "full",
        leaky: bool = False,
        backend: Backend = "auto",
        std: float = 0.1,
    ) -> None:
        super().__init__()
        self.num_iters, self.leaky = num_iters, leaky
        self.gradient, self.backend = gradient, backend
        self.W = nn.Parameter(std * torch.randn(num_lower, num_classes, dim, lower_dim))
        self.bias = nn.Parameter(torch.full((num_classes, dim), 0.1)) if routing_bias else None

    def forward(self, features: Tensor) -> Tensor:
        """Return the routed capsules v [N, J, E]."""
        return dynamic_routing(
            self.lower(features),
            self.W,
            self.num_iters,
            bias=self.bias,
            gradient=self.gradient,
            leaky=self.leaky,
            backend=self.backend,
        )

    def trace(self, features: Tensor) -> RoutingTrace:
        """Return every iteration of the routing, to look inside."""
        u = self.lower(features)
        return routing_trace(u, self.W, self.num_iters, bias=self.bias, leaky=self.leaky)

    def lower(self, features: Tensor) -> Tensor:
        """Return features as the lower capsules u [N, I, D]; a UserError if they do not fit."""
        I, D = self.W.shape[0], self.W.shape[3]
        u = features
        if features.dim() > 3:
            u = as_capsules(features, D)
        elif features.dim() == 3 and features.shape[2] != D and features.shape[2] % D == 0:
            u = features.unflatten(2, (-1, D)).flatten(1, 2)
        if u.dim() != 3 or u.shape[1:] != (I, D):
            raise UserError(
                f"Features of shape {list(features.shape)} are not {I} capsules of {D}; make the "
                f"layer with num_lower and lower_dim of these, or give it [N, {I}, {D}]."
            )
        return u

    def extra_repr(self) -> str:
        """Say the sizes and how it routes."""
        I, J, E, D = self.W.shape
        words = [f"{I} capsules of {D} -> {J} of {E}", f"num_iters={self.num_iters}"]
        words += ["routing_bias"] if self.bias is not None else []
        words += ["leaky"] if self.leaky else []
        words += [f"gradient={self.gradient}"] if self.gradient != "full" else []
        words += [f"backend={self.backend}"] if self.backend != "auto" else []
        return ", ".join(words)
