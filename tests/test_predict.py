"""capsnet predict on files and folders: tables, what was seen, bad files, and doubts."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from photos import make_photo
from PIL import Image

from capsnet.data.sets.digits import load_digits
from capsnet.errors import UserError
from capsnet.models.reference import Reference, drawing_errors, measure_reference
from capsnet.models.weights import WEIGHTS, find_model, load_weights, save_weights
from capsnet.pictures.reading import Reading
from capsnet.prediction import predict
from capsnet.prediction.answer import confidence
from capsnet.prediction.trust import BLANK, doubts
from capsnet.tasks import Calibration, SeveralLabels

ODD_NAMES = ("a, b.png", 'say "7".png', "new\nline.png", "größe ٣.png", "=1+1.png")


def digit(path, index, size=None):
    image = Image.fromarray(load_digits("test").images[index, 0].numpy())
    path.parent.mkdir(parents=True, exist_ok=True)
    (image if size is None else image.resize(size)).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Five digits with odd names, two of them deeper, among files that are no pictures."""
    for n, name in enumerate(ODD_NAMES):
        digit(tmp_path / "in" / ("deep/er" if n > 2 else "") / name, n)
    (tmp_path / "in" / "notes.txt").write_text("no picture")
    (tmp_path / "in" / "._1.png").write_bytes(b"a trace of another system")
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    return tmp_path / "in"


def test_a_folder_becomes_a_table(cli, trained, folder, tmp_path):
    table = tmp_path / "out" / "answers.csv"
    done = cli("predict", folder, "--weights", trained, "--csv", table, "--device", "cpu")
    assert done.status == 0 and done.out.startswith(f"Wrote {table}: 5 pictures; ")
    with table.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["file", "prediction", "confidence", *"0123456789"]
    assert sorted(row[0].rpartition("/")[2] for row in rows) == sorted(ODD_NAMES)
    for row in rows:
        lengths = [float(x) for x in row[3:]]
        assert row[1] == str(np.argmax(lengths)) and float(row[2]) == max(lengths)


def test_a_clean_picture_is_given_as_it_is(trained, tmp_path):
    seen = tmp_path / "seen"
    answers = predict([digit(tmp_path / "a.png", 4)], trained, device="cpu", save_input=seen)
    assert answers[0].input == seen / "a-input.png"
    saw = np.asarray(Image.open(answers[0].input))
    assert np.array_equal(saw, load_digits("test").images[4, 0].numpy())


def test_what_was_seen_of_a_photo_is_ink_on_black(trained, tmp_path):
    path = make_photo(3).write(tmp_path, "photo.jpg")
    (answer,) = predict([path], trained, device="cpu", save_input=tmp_path / "seen")
    saw = np.asarray(Image.open(answer.input))
    assert saw.shape == (28, 28) and saw.max() == 255 and np.mean(saw == 0) > 0.5
    (plain,) = predict([path], trained, device="cpu", as_is=True, save_input=tmp_path / "plain")
    assert np.asarray(Image.open(plain.input))[14, 14] > 60  # the paper is still there


def test_black_ink_on_nothing_is_read(trained, tmp_path):
    image = load_digits("test").images[4, 0].numpy()
    pixels = np.zeros((28, 28, 4), np.uint8)
    pixels[..., 3] = image
    Image.fromarray(pixels).save(tmp_path / "ink.png")
    (answer,) = predict([tmp_path / "ink.png"], trained, device="cpu", save_input=tmp_path / "seen")
    assert np.array_equal(np.asarray(Image.open(answer.input)), image)


def test_the_first_bad_file_is_an_error_and_nothing_is_left(cli, trained, folder, tmp_path):
    (folder / "z.png").write_text("no picture")
    words = ["--csv", tmp_path / "a.csv", "--save-input", tmp_path / "s", "--device", "cpu"]
    done = cli("predict", folder, "--weights", trained, *words)
    assert done.status == 2 and "z.png" in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "a.csv").exists() and not list((tmp_path / "s").iterdir())


def test_bad_files_are_left_out_and_named(cli, trained, folder, tmp_path):
    (folder / "bad.png").write_bytes(b"")
    words = ["--csv", tmp_path / "a.csv", "--skip-bad", "--json", "--device", "cpu"]
    done = cli("predict", folder, "--weights", trained, *words)
    assert done.status == 0 and "bad.png" in done.err and "1 of 6 files" in done.err
    facts = json.loads(done.out)
    assert len(facts["predictions"]) == 5 and facts["skipped"][0]["file"].endswith("bad.png")
    assert len(list(csv.reader((tmp_path / "a.csv").open(encoding="utf-8", newline="")))) == 6
    alone = cli("predict", folder / "bad.png", "--weights", trained, "--skip-bad")
    assert alone.status == 2 and "None of the 1 files" in alone.err


def test_mistakes_are_said_before_the_work(cli, trained, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("")
    assert "no pictures" in cli("predict", tmp_path / "empty", "--weights", trained).err
    picture = digit(tmp_path / "a.png", 0)
    done = cli("predict", picture, "--weights", trained, "--csv", tmp_path / "text" / "a.csv")
    assert done.status == 2 and "Could not write" in done.err
    with pytest.raises(UserError, match="Could not write"):
        predict([picture], trained, device="cpu", save_input=tmp_path / "text" / "seen")


@pytest.fixture
def changed(trained, tmp_path):
    """Make weights of the trained network whose card says something else."""

    def change(**more):
        model, card = load_weights(trained / WEIGHTS)
        save_weights(model, tmp_path / "changed.safetensors", replace(card, **more))
        return tmp_path / "changed.safetensors"

    return change


def test_calibrated_probabilities_decide(changed, trained, tmp_path):
    picture = digit(tmp_path / "a.png", 3)
    (plain,) = predict([picture], trained, device="cpu")
    (sharp,) = predict([picture], changed(calibration=Calibration(0.2)), device="cpu")
    assert sum(sharp.answers.values()) == pytest.approx(1, abs=1e-4)
    assert sharp.decision == plain.decision and sharp.confidence == max(sharp.answers.values())
    assert "probabilities" in sharp.to_json() and "lengths" in plain.to_json()


def test_window_and_fit_of_the_card_are_used(changed, tmp_path):
    levels = np.zeros((28, 56), np.uint16)
    levels[:, 14:42] = load_digits("test").images[3, 0].numpy().astype(np.uint16) * 16
    Image.fromarray(levels).save(tmp_path / "deep.png")
    reading = Reading(28, 1, fit="crop", window=(0, 4080))
    weights = changed(reading=reading)
    (answer,) = predict([tmp_path / "deep.png"], weights, device="cpu", save_input=tmp_path / "s")
    saw = np.asarray(Image.open(answer.input))
    assert np.array_equal(saw, load_digits("test").images[3, 0].numpy())
    assert not any("training" in doubt for doubt in answer.doubts)
    Image.fromarray(levels * 8).save(tmp_path / "other.png")
    (answer,) = predict([tmp_path / "other.png"], weights, device="cpu")
    assert any("white (4080) of training" in doubt for doubt in answer.doubts)


def test_doubts_say_why(trained, tmp_path):
    model, _ = find_model(str(trained))
    sure = [0.95 if k == 3 else 0.05 for k in range(10)]
    assert doubts(model, sure) == ()
    assert "“3” is not sure" in doubts(model, [x / 2 for x in sure])[0]
    two = [*sure[:8], 0.8, 0.05]
    assert "may be “8” as well" in doubts(model, two)[0]
    assert doubts(model, sure, 0.2, Reference(0.2)) == ()
    assert "misses 70 %" in doubts(model, sure, 0.7, Reference(0.2))[0]
    assert doubts(model, two, 0.7, Reference(0.2), (BLANK,)) == (BLANK,)


def test_doubts_are_about_what_was_said():
    model = find_model("capsnet_small")[0]
    lengths = [0.1, 0.1, 0.1, 0.66, 0.1, 0.1, 0.1, 0.1, 0.6, 0.1]
    likely = [0.02, 0.02, 0.02, 0.31, 0.02, 0.02, 0.02, 0.02, 0.53, 0.02]
    (told,) = doubts(model, lengths, calibrated=("8", likely))
    assert told == "“8” is not sure, with a probability of only 0.53"
    sure = [0.01] * 8 + [0.92, 0.0]
    assert doubts(model, lengths, calibrated=("8", sure)) == ()
    assert (
        "no capsule is long" in doubts(model, [x / 2 for x in lengths], calibrated=("8", sure))[0]
    )


def test_several_labels_are_as_sure_as_what_was_said_of_each():
    task, rule = SeveralLabels(("a", "b")), Calibration(1.0, (0.7, 0.2))
    assert confidence(task, [0.6, 0.3], "b", rule) == pytest.approx(0.3)
    assert confidence(task, [0.6, 0.1], "a", None) == pytest.approx(0.6)


def test_a_folder_of_folds_asks_for_one_of_them(tmp_path):
    (tmp_path / "fold1").mkdir()
    (tmp_path / "fold1" / WEIGHTS).touch()
    with pytest.raises(UserError, match=r"several runs; choose one, e\.g\. --weights .*fold1"):
        find_model(str(tmp_path))


def test_strange_pictures_are_doubted_and_digits_are_not(tmp_path):
    known = [digit(tmp_path / f"{n}.png", n) for n in range(0, 40)]
    draw = np.random.default_rng(0)
    strange = []
    for n in range(8):
        scribble = (draw.random((9, 9)) < 0.3).astype(np.uint8) * 255
        strange.append(tmp_path / f"strange-{n}.png")
        Image.fromarray(np.pad(scribble, 3)).resize((60, 60)).save(strange[-1])
    Image.new("L", (80, 60), 200).save(tmp_path / "blank.png")
    answers = predict([*known, *strange, tmp_path / "blank.png"], "capsnet_mnist", device="cpu")
    assert sum(bool(x.doubts) for x in answers[:40]) <= 3
    assert sum(bool(x.doubts) for x in answers[40:48]) >= 7
    assert answers[-1].doubts == (BLANK,) and BLANK in str(answers[-1])


def test_what_is_usual_is_measured_on_known_images(trained):
    model, _ = find_model(str(trained))
    known = load_digits("train").images[:40] / 255
    usual = measure_reference(model.eval(), known)
    with torch.inference_mode():
        errors = drawing_errors(model, known, model(known))
    assert (errors <= usual.drawing_error).float().mean() == pytest.approx(0.95, abs=0.03)
    assert measure_reference(find_model("cnn_small")[0], known) is None
