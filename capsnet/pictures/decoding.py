"""One file decoded: any of the formats below, any depth, turned upright.

PNG, JPEG, BMP, GIF, TIFF, WebP; HEIC, DICOM and NIfTI with their extras; .npy as [H, W] or
[H, W, C].

form, picture = decode("scan.png"); form.bits
"""

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from capsnet.errors import MissingExtra, UserError, needs

FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".bmp": "BMP",
    ".gif": "GIF",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
    ".heic": "HEIF",
    ".heif": "HEIF",
}
OPEN_TO_ALL = tuple(sorted({*FORMATS.values()} - {"HEIF"}))  # whatever the suffix says
ARRAY, DICOM, NIFTI = (".npy",), (".dcm", ".dicom"), (".nii", ".nii.gz")
SUFFIXES = (*FORMATS, *ARRAY, *DICOM, *NIFTI)
MAX_PIXELS = 64_000_000
MAX_CHANNELS = 64
GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")
UPRIGHT, ORIENTATION = 1, 0x0112  # of the camera's mark
FINE = 4  # a JPEG is decoded at this many times the size asked for, if it is larger
LARGEST = 1e30  # of a value; single precision ends a little above
NO_NUMBERS = "it holds values that are no numbers, or far too large"
SLICE = "#"  # scan.nii.gz#12 is slice 12 of a volume, the first is 0


class Form(NamedTuple):
    """What a file holds: its size, its channels, and how many bits each value has."""

    width: int
    height: int
    channels: int
    bits: int
    frames: int = 1  # of an animation or a stack, of which the first is read


class BadPicture(UserError):
    """A file that cannot be read as a picture; the sentence names it and the way out."""


def is_picture(name: str) -> bool:
    """Whether the name of a file ends as those of pictures do."""
    return name.lower().endswith(SUFFIXES)


def read_form(path: str) -> Form:
    """Return what a file holds, from its header alone where it has one."""
    if not path.lower().endswith(tuple(FORMATS)):
        return decode(path)[0]
    with opened(path) as picture:
        return _form(picture)


def num_slices(path: str) -> int:
    """Return how many pictures a NIfTI file holds, along its third axis."""
    with needs("NIfTI files need nibabel", extra="medical"):
        import nibabel
    with _mistakes(path):
        volume: Any = nibabel.load(path)
        shape = volume.shape
        if len(shape) not in (2, 3):
            raise ValueError(f"it has {len(shape)} dimensions, not 2 or 3")
        if 0 in shape:
            raise ValueError("it is empty")
        return 1 if len(shape) == 2 else int(shape[2])


def slices_of(path: str) -> list[str]:
    """Return the names of a volume's slices; of any other file its own."""
    if not path.lower().endswith(NIFTI) or (num := num_slices(path)) == 1:
        return [path]
    return [f"{path}{SLICE}{k}" for k in range(num)]


def slice_of(name: str) -> tuple[str, int | None]:
    """Return the volume and the number that the name of a slice says; any other name as it is."""
    file, mark, number = name.rpartition(SLICE)
    if mark and number.isdecimal() and file.lower().endswith(NIFTI):
        return file, int(number)
    return name, None


@contextmanager
def opened(path: str | Path | BinaryIO) -> Iterator[Image.Image]:
    """Open a picture file to read it in the block; anything else is an error that names it."""
    usual = FORMATS.get(os.path.splitext(str(path))[1].lower(), "PNG")
    if usual == "HEIF":
        with needs("HEIC pictures need pillow-heif", extra="heic"):
            import pillow_heif
        pillow_heif.register_heif_opener()
    with _mistakes(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters of them is in our own words
        if isinstance(path, str | Path):
            _require_file(path)
        with Image.open(path, formats=(usual, *OPEN_TO_ALL)) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            yield picture


def upright(picture: Image.Image) -> Image.Image:
    """Return a picture turned as its camera was held."""
    marked = "exif" in picture.info or picture.format in ("TIFF", "HEIF")
    if marked and picture.getexif().get(ORIENTATION, UPRIGHT) != UPRIGHT:
        return ImageOps.exif_transpose(picture)
    return picture


def decode(
    source: str | Path | BinaryIO, size: int | None = None
) -> tuple[Form, Image.Image | np.ndarray]:
    """Return the form of a file, and its picture or, where it is none of 8 bits, its values.

    Values are [H, W, C]. size: the side that is wanted, if a large JPEG may be decoded smaller.
    """
    if not isinstance(source, str | Path):
        return _picture(source, size)
    path = str(source)
    file, number = slice_of(path)
    if number is not None:
        return _of_values(path, _nifti(file, number))
    lower = path.lower()
    if not lower.endswith((*ARRAY, *DICOM, *NIFTI)):
        return _picture(path, size)
    with _mistakes(path):
        _require_file(path)
    if lower.endswith(ARRAY):
        return _of_values(path, _array(path))
    if lower.endswith(DICOM):
        return _of_values(path, _dicom(path))
    return _of_values(path, _nifti(path, 0))


def _picture(source: str | BinaryIO, size: int | None) -> tuple[Form, Image.Image | np.ndarray]:
    with opened(source) as picture:
        if picture.format == "JPEG" and size is not None:
            picture.draft(None, (FINE * size, FINE * size))
        form = _form(picture)
        picture.load()
        turned = upright(picture)
        if turned.mode.startswith(("I", "F")):
            values = np.asarray(turned).astype(np.float32)
            if (clear := picture.info.get("transparency")) is not None:
                values = np.where(values == clear, 0, values)
            if not np.isfinite(values).all():
                raise ValueError(NO_NUMBERS)
            return form, values[:, :, None]
        if turned.mode == "LAB":
            turned = turned.convert("RGB")  # the one step from there that Pillow knows
        turned.info = picture.info
        return form, turned  # loaded, it outlives its file


def _form(picture: Image.Image) -> Form:
    mode = picture.mode
    deep = 16 if mode.startswith("I;16") else 32 if mode in ("I", "F") else 8
    tiles = getattr(picture, "tile", None)
    if tiles and ";16" in str(tiles[0][3]):  # colour, of which Pillow reads 8 bits
        deep = 16
    width, height = picture.size
    channels = 1 if mode in GREY_MODES else 3
    return Form(width, height, channels, deep, getattr(picture, "n_frames", 1))


def _of_values(path: str, values: np.ndarray) -> tuple[Form, np.ndarray]:
    """Return the form of values [H, W] or [H, W, C], and the values [H, W, C]."""
    with _mistakes(path):
        if values.ndim not in (2, 3) or 0 in values.shape:
            raise ValueError(f"its shape is {list(values.shape)}, not [H, W] or [H, W, C]")
        if values.dtype.kind not in "biuf":
            raise ValueError(f"its type is {values.dtype}, not a number")
        values = values[:, :, None] if values.ndim == 2 else values
        height, width, channels = values.shape
        if channels > MAX_CHANNELS or height * width > MAX_PIXELS:
            raise ValueError(f"{height}×{width} pixels with {channels} channels are too many")
        if values.dtype.kind == "f" and not (np.abs(values) < np.float64(LARGEST)).all():
            raise ValueError(NO_NUMBERS)
    bits = 8 if values.dtype in (np.uint8, np.bool_) else 8 * values.dtype.itemsize
    if values.dtype == np.bool_:
        values = values.astype(np.uint8) * 255
    return Form(width, height, channels, bits), values


def _array(path: str) -> np.ndarray:
    with _mistakes(path), open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("it is no array of numpy's")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def _dicom(path: str) -> np.ndarray:
    with needs("DICOM files need pydicom", extra="medical"):
        import pydicom
    with _mistakes(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scan = pydicom.dcmread(path)
        values = scan.pixel_array
        if values.ndim == 3 and scan.get("SamplesPerPixel", 1) == 1:
            raise ValueError(f"it holds {len(values)} frames; store each as a file")
        values = values.astype(np.float32)
        if scan.get("PhotometricInterpretation") == "MONOCHROME1":  # where small values are bright
            # About the middle of all that can be stored, so that equal values stay equal in every
            # picture: 0 … 2^bits - 1, or -2^(bits-1) … 2^(bits-1) - 1 with signs.
            values = (-1 if scan.PixelRepresentation else 2**scan.BitsStored - 1) - values
        slope, shift = scan.get("RescaleSlope", 1), scan.get("RescaleIntercept", 0)
        return values * float(slope) + float(shift)


def _nifti(path: str, number: int) -> np.ndarray:
    with needs("NIfTI files need nibabel", extra="medical"):
        import nibabel  # noqa: F401
    with _mistakes(path):
        volume = _volume(path, os.stat(path).st_mtime_ns)
        values = volume[:, :, number] if volume.ndim == 3 else volume
        if values.dtype.kind not in "biuf":
            raise ValueError(f"its type is {values.dtype}, not a number")
        return values.astype(np.float32).T  # rows are the second axis


@lru_cache(maxsize=1)
def _volume(path: str, changed: int) -> np.ndarray:
    """Return the values of a volume; its slices are asked for one after the other."""
    import nibabel

    file: Any = nibabel.load(path)
    return np.asanyarray(file.dataobj)


def _require_file(path: str | Path) -> None:
    """Raise an error for what is no file with content: a pipe, a device, nothing."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is a pipe or a device, not a file")
    if found.st_size == 0:
        raise ValueError("it is empty")


@contextmanager
def _mistakes(path: str | Path | BinaryIO) -> Iterator[None]:
    """Turn whatever a damaged file makes a library raise into a sentence that names the file."""
    shown = str(path).replace("\n", "\\n")
    try:
        yield
    except (BadPicture, MissingExtra):
        raise
    except Image.DecompressionBombError:
        raise BadPicture(
            f"{shown} has more than {MAX_PIXELS:,} pixels; make it smaller first."
        ) from None
    except FileNotFoundError:
        raise BadPicture(f"There is no picture {shown}; check the name.") from None
    except IsADirectoryError:
        raise BadPicture(f"{shown} is a folder; name the pictures in it.") from None
    except PermissionError:
        raise BadPicture(f"You may not read {shown}; ask its owner, or use a copy.") from None
    except MemoryError:
        raise BadPicture(
            f"{shown} asks for more memory than there is; make it smaller, or remove it."
        ) from None
    except Exception as error:
        reason = " ".join(str(error).split()).replace(str(path), "it")
        if isinstance(error, Image.UnidentifiedImageError):
            reason = "it is in no format that is known"
        raise BadPicture(
            f"{shown} is not a readable picture ({reason}); mend or remove it."
        ) from None
