"""Several processes that train, evaluate or predict together: torch.distributed, and who does what.

torchrun --nproc-per-node 4 -m capsnet train …      or, on one machine, capsnet train --devices 4
"""
