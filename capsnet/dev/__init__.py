"""What those who keep this repository need: pages from results, and weights that are shipped.

python -m capsnet.dev report --check
"""
