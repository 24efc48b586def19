"""Gradients on their way from process to process: half as many bytes.

DistributedDataParallel(model).register_comm_hook(None, exchange_in_bf16)
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future


def exchange_in_bf16(_: Any, bucket: dist.GradBucket) -> Future[Tensor]:
    """Return the mean over all processes of a bucket of gradients, summed up in bf16.

    torch has the same for NCCL alone; this one also goes where processes talk through Gloo.
    """
    sent = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    summed = dist.all_reduce(sent, async_op=True).get_future()
    return summed.then(lambda done: bucket.buffer().copy_(done.value()[0]))
