import os

import numpy as np
import pytest
from making import noise
from PIL import Image

from capsnet.pictures.decoding import BadPicture, num_slices, read_form, slices_of
from capsnet.pictures.squares import read_square
from capsnet.prediction.seeing import pictures_in


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tiff", "webp", "jpg", "heic"])
def test_formats(tmp_path, suffix):
    pixels = noise(1, (24, 24, 3))
    path = str(tmp_path / f"x.{suffix}")
    if suffix == "heic":
        import pillow_heif

        pillow_heif.register_heif_opener()
    extra = {"lossless": True} if suffix == "webp" else {"quality": 98}
    Image.fromarray(pixels).save(path, **extra)
    got, form = read_square(path, 24, 3)
    assert (form.width, form.height, form.channels, form.bits) == (24, 24, 3, 8)
    loss = np.abs(got.transpose(1, 2, 0).astype(int) - pixels).mean()
    assert loss == 0 if suffix in ("png", "bmp", "tiff", "webp") else loss < 20


def test_depth_is_kept(tmp_path):
    deep = noise(2, (8, 8), 4096, np.uint16)
    for name in ("d.png", "d.tiff"):
        Image.fromarray(deep).save(tmp_path / name)
        got, form = read_square(str(tmp_path / name), 8, 1)
        assert form.bits == 16 and got.dtype == np.float32 and np.array_equal(got[0], deep)
    np.save(tmp_path / "d.npy", deep[:, :, None].repeat(5, 2))
    got, form = read_square(str(tmp_path / "d.npy"), 8, 5)
    assert form.channels == 5 and np.array_equal(got[4], deep)
    with pytest.raises(BadPicture, match="5 channels, not 3"):
        read_square(str(tmp_path / "d.npy"), 8, 3)


def test_colours_of_printers_become_grey(tmp_path):
    for mode in ("CMYK", "LAB", "YCbCr"):
        Image.new(mode, (8, 8), (90,) * len(Image.new(mode, (1, 1)).getbands())).save(
            tmp_path / "x.tiff"
        )
        assert read_square(str(tmp_path / "x.tiff"), 8, 1)[0].shape == (1, 8, 8), mode


def test_fits(tmp_path):
    wide = np.zeros((4, 8), np.uint8)
    wide[:, :2] = 255
    path = str(tmp_path / "w.png")
    Image.fromarray(wide).save(path)
    pad, crop, stretch = (read_square(path, 8, 1, fit)[0][0] for fit in ("pad", "crop", "stretch"))
    assert (pad[:2] == 0).all() and (pad[2:6, :2] == 255).all() and (pad[6:] == 0).all()
    assert crop.max() < 128  # the bright edge is cut off
    assert (stretch[:, :2] == 255).all() and stretch.shape == (8, 8)


def test_the_cameras_mark_turns_the_picture(tmp_path):
    pixels = np.zeros((8, 8), np.uint8)
    pixels[0] = 255
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn clockwise
    for name in ("e.png", "e.jpg", "e.webp", "e.tiff"):
        Image.fromarray(pixels).save(tmp_path / name, exif=turned)
        got, _ = read_square(str(tmp_path / name), 8, 1)
        assert got[0, :, -1].mean() > 200 and got[0, :, 0].mean() < 60, name


def test_dicom(tmp_path):
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    values = noise(3, (6, 6), 4096, np.uint16)
    scan = Dataset()
    scan.file_meta = FileMetaDataset()
    scan.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    scan.file_meta.MediaStorageSOPClassUID = CTImageStorage
    scan.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    scan.Rows, scan.Columns = values.shape
    scan.BitsAllocated, scan.BitsStored, scan.HighBit = 16, 12, 11
    scan.PixelRepresentation, scan.SamplesPerPixel = 0, 1
    scan.PhotometricInterpretation = "MONOCHROME2"
    scan.RescaleSlope, scan.RescaleIntercept = 2, -1024
    scan.PixelData = values.tobytes()
    path = str(tmp_path / "s.dcm")
    scan.save_as(path, enforce_file_format=True)
    got, form = read_square(path, 6, 1)
    assert form.bits > 8 and np.array_equal(got[0], values.astype(np.float32) * 2 - 1024)
    scan.PhotometricInterpretation = "MONOCHROME1"  # small values are bright
    scan.save_as(path, enforce_file_format=True)
    got, _ = read_square(path, 6, 1)  # the same value is as bright in every picture
    assert np.array_equal(got[0], (4095 - values.astype(np.float32)) * 2 - 1024)


def test_nifti_slices(tmp_path):
    import nibabel

    volume = np.arange(4 * 5 * 3, dtype=np.int16).reshape(4, 5, 3)
    path = str(tmp_path / "v.nii.gz")
    nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), path)
    assert num_slices(path) == 3 and slices_of(path) == [f"{path}#{k}" for k in range(3)]
    assert [x.name for x in pictures_in([tmp_path])] == ["v.nii.gz#0", "v.nii.gz#1", "v.nii.gz#2"]
    (tmp_path / "w.nii").write_bytes(b"no volume")
    assert len(pictures_in([tmp_path])) == 4  # what is wrong with it is said when it is read
    got, form = read_square(f"{path}#2", 5, 1)
    assert (form.width, form.height) == (4, 5)
    assert np.array_equal(got[0][:, :4], volume[:, :, 2].T)


@pytest.mark.parametrize(
    "kind", ["empty", "cut", "text", "fifo", "folder", "none", "objects", "nan"]
)
def test_bad_files_are_one_sentence(tmp_path, kind):
    path = tmp_path / "b.png"
    if kind == "empty":
        path.touch()
    elif kind == "cut":
        Image.fromarray(noise(1, (40, 40))).save(path)
        path.write_bytes(path.read_bytes()[:200])
    elif kind == "text":
        path.write_text("no picture", encoding="utf-8")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "objects":
        path = tmp_path / "b.npy"
        np.save(path, np.array([{}, 1], dtype=object), allow_pickle=True)
    elif kind == "nan":
        path = tmp_path / "b.npy"
        np.save(path, np.full((3, 3), np.nan))
    with pytest.raises(BadPicture) as error:
        read_square(str(path), 8, 1)
    assert path.name in str(error.value) and "\n" not in str(error.value)


def test_form_is_read_without_the_pixels(tmp_path):
    Image.fromarray(noise(1, (9, 7))).convert("1").save(tmp_path / "x.png")
    assert read_form(str(tmp_path / "x.png"))[:3] == (7, 9, 1)
