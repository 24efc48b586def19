"""Archives: some of their files, read into memory; nothing is unpacked to a disk.

Usage: raw = read_tar(path, ["test_batch.bin"])["test_batch.bin"]
"""

import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath


def read_tar(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the files of a .tar.gz that have these names in any folder; OSError if it is cut."""
    wanted = set(names)
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                content = archive.extractfile(member) if name in wanted - files.keys() else None
                if content is not None:
                    files[name] = content.read()
                if wanted <= files.keys():
                    break
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise OSError(f"{path} cannot be read ({error})") from None
    return files
