#!/bin/bash
# Train on several machines of a SLURM cluster, one process for each GPU:
#   sbatch examples/cluster/slurm.sh --model capsnet_modern --data scans --out /shared/runs/scans
# Data and the run's folder must be at the same place on every machine. When the time is up, or
# scancel comes, all processes stop after the same step and the first one saves; submit the same
# command with --resume to go on.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun \
  --nnodes "$SLURM_NNODES" \
  --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" \
  --max-restarts 3 \
  --rdzv-id "$SLURM_JOB_ID" \
  --rdzv-backend c10d \
  --rdzv-endpoint "$head:29500" \
  -m capsnet train "$@"
