"""Verbs that tell what a checkout is made of: licences, sbom."""

import json
from importlib.metadata import Distribution, distributions
from pathlib import Path

import capsnet
from capsnet.files import write_text

NO_LICENCE = "not said"


def licences() -> int:
    """List the licence of every installed package, as it says itself.

    Example: python -m capsnet.dev licences
    """
    for name, package in _installed().items():
        print(f"{name:<32} {package.version:<16} {licence_of(package)}")
    return 0


def sbom(out: Path = Path("sbom.json")) -> int:
    """Write the software bill of materials of this environment, in CycloneDX's JSON.

    Example: python -m capsnet.dev sbom --out sbom.json

    Args:
        out: Where it is written.
    """
    parts = [
        {
            "type": "library",
            "name": name,
            "version": package.version,
            "purl": f"pkg:pypi/{name}@{package.version}",
            "licenses": [{"license": {"name": licence_of(package)}}],
        }
        for name, package in _installed().items()
        if name != "capsnet"
    ]
    itself = {"type": "application", "name": "capsnet", "version": capsnet.__version__}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": itself},
        "components": parts,
    }
    write_text(out, json.dumps(document, indent=2) + "\n")
    print(f"Wrote {out}: {len(parts)} packages.")
    return 0


def licence_of(package: Distribution) -> str:
    """Return what a package says of its licence, in one line."""
    said = package.metadata
    if "License-Expression" in said:
        return said["License-Expression"]
    kinds = [x.split(" :: ")[-1] for x in said.get_all("Classifier") or () if "License ::" in x]
    short = said["License"].strip().splitlines() if "License" in said else []
    return ", ".join(kinds) or (short[0] if short else NO_LICENCE)


def _installed() -> dict[str, Distribution]:
    found = {p.metadata["Name"].lower().replace("_", "-"): p for p in distributions()}
    return dict(sorted(found.items()))
