"""A trained network as an ONNX file that takes any number of images.

pip install 'capsnet[export]'; python examples/export.py
"""

from pathlib import Path

import torch

import capsnet


def main(path: Path = Path("capsnet_small.onnx")) -> Path:
    """Write the shipped small network and return the file."""
    model = capsnet.create_model("capsnet_small", pretrained=True).eval()
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.onnx.export(
        model,
        (torch.rand(2, 1, 28, 28),),
        path,
        input_names=["images"],
        output_names=["v", "lengths"],
        dynamic_shapes={"images": {0: batch}},
        dynamo=True,
    )
    return path


if __name__ == "__main__":
    print(main())
