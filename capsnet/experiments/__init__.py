"""Tables, figures and claims of the paper, one file each; their runner and their pages."""

from importlib import import_module

from capsnet.errors import needs

with needs("Experiments need matplotlib and scipy", extra="experiments"):
    for package in ("matplotlib", "scipy"):
        import_module(package)
