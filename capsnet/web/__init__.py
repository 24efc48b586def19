"""The explorer: one page that shows what capsules know, served from the package.

capsnet explore, or serve(weights="runs/mine") from capsnet.web.server
"""

from importlib import import_module

from capsnet.errors import needs

with needs("The explorer needs FastAPI and uvicorn", extra="explorer"):
    for package in ("fastapi", "uvicorn"):
        import_module(package)
