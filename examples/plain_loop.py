"""A plain PyTorch loop: our model, its own loss, torch's optimizer, nothing else of ours.

python examples/plain_loop.py
"""

import torch

import capsnet


def main(steps: int = 150) -> float:
    """Train capsnet_small for some steps and return its test error in per cent."""
    torch.manual_seed(0)
    train, test = (capsnet.open_data("digits", part) for part in ("train", "test"))
    model = capsnet.create_model("capsnet_small")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    plan = train.plan(torch.Generator().manual_seed(0))  # the order of the images
    for step in range(steps):
        rows = torch.arange(step * 32, step * 32 + 32) % train.num_samples
        batch = train.batch({name: values[rows] for name, values in plan.items()})
        output = model(batch.images)  # output.v [32, 10, 16], output.lengths [32, 10]
        loss = model.loss(output, batch, capsnet.Progress.at(step, steps))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return capsnet.evaluate(model, test).figure


if __name__ == "__main__":
    print(f"test error {main():.1f} %")
