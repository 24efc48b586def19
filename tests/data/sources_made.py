"""A data set of two files, and what a web server answers about them."""

import gzip
import hashlib
import io
import tarfile

FILES = {"one": b"the first file " * 5000, "two": b"the second file"}


def md5(content):
    return hashlib.md5(content).hexdigest()


def put(folder, zipped=False, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def give(files):
    """Answer with the .gz of a file, 404 for others."""

    def answer(request):
        name = request.path.removeprefix("/data/").removesuffix(".gz")
        if name not in files:
            return request.send_error(404)
        content = gzip.compress(files[name])
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


def give_archive(content):
    """Answer with the archive's bytes, 404 for others; note what was asked for."""
    asked = []

    def answer(request):
        asked.append(request.path)
        if request.path != "/data/all.tar.gz":
            return request.send_error(404)
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer, asked


def archive_of(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, raw in files.items():
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return content.getvalue()
