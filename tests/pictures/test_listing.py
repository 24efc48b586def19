import os

import pytest
from making import noise, patients, save, table

from capsnet.errors import UserError
from capsnet.pictures.layout import Layout
from capsnet.pictures.listing import list_pictures


def test_nested_folders_must_be_explained(tmp_path):
    root = patients(tmp_path)
    for layout in (Layout(), Layout(class_from="1")):
        with pytest.raises(UserError, match="--class-from 1 --group-from 2"):
            list_pictures(root, layout)
    listing = list_pictures(root, Layout(class_from="1", group_from="2"))
    assert listing.names == ("benign", "malignant") and len(listing) == 48
    for file, label, group in zip(listing.files, listing.labels, listing.groups, strict=True):
        assert file.split("/")[:2] == [label, group]
    alone = list_pictures(root, Layout(group_from="none"))
    assert alone.groups == () and alone.labels == listing.labels


def test_parts_together_and_patterns(tmp_path):
    for who in ("anna", "bert"):
        for k in (1, 2):
            save(tmp_path / ("cat", "dog")[k - 1] / f"{who}_{k}.png", noise(k))
    both = list_pictures(tmp_path, Layout(group_from="([a-z]+)_"))
    assert set(both.groups) == {"anna", "bert"}
    by_name = list_pictures(tmp_path, Layout(class_from="_([0-9])", group_from="none"))
    assert by_name.names == ("1", "2")
    joined = list_pictures(patients(tmp_path / "p"), Layout(class_from="1", group_from="1,2"))
    assert {g.split("/")[0] for g in joined.groups} == {"benign", "malignant"}


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        (Layout(class_from="9", group_from="none"), "no folder 9"),
        (Layout(class_from="(x", group_from="none"), "no pattern"),
        (Layout(group_from="abc"), "one group in parentheses"),
        (Layout(group_from="(zebra)"), "does not match"),
        (Layout(numbers_from="age"), "columns of a table"),
        (Layout(split_from="1", group_from="2"), "for its split"),
    ],
)
def test_what_cannot_be_is_said(tmp_path, layout, says):
    with pytest.raises(UserError, match=says):
        list_pictures(patients(tmp_path), layout)


def test_the_class_to_be_found_is_last(tmp_path):
    root = patients(tmp_path)
    found = Layout(class_from="1", group_from="2", positive="benign")
    assert list_pictures(root, found).names == ("malignant", "benign")
    with pytest.raises(UserError, match="did you mean 'malignant'"):
        list_pictures(root, Layout(class_from="1", group_from="2", positive="malign"))


def test_links_are_followed_once(tmp_path):
    save(tmp_path / "real" / "a" / "1.png", noise(1))
    save(tmp_path / "real" / "b" / "1.png", noise(2))
    os.symlink(tmp_path / "real" / "a", tmp_path / "real" / "c")
    os.symlink(tmp_path / "real", tmp_path / "real" / "b" / "round")
    listing = list_pictures(tmp_path / "real", Layout(group_from="none"))
    assert len(listing) == 2


def test_files_that_are_no_pictures(tmp_path):
    save(tmp_path / "a" / "1.png", noise(1))
    save(tmp_path / "b" / "1\n2 ünï.png", noise(2))
    (tmp_path / "README.txt").write_text("beside the classes", encoding="utf-8")
    assert len(list_pictures(tmp_path, Layout())) == 2
    (tmp_path / "a" / "notes.txt").write_text("x", encoding="utf-8")
    os.mkfifo(tmp_path / "b" / "pipe.png")
    with pytest.raises(UserError, match=r"notes.txt is no picture.*--skip-bad"):
        list_pictures(tmp_path, Layout())
    listing = list_pictures(tmp_path, Layout(skip_bad=True))
    assert len(listing) == 2 and len(listing.skipped) == 2


def test_one_label_table(tmp_path):
    for k in range(4):
        save(tmp_path / "pics" / f"{k}.png", noise(k))
    rows = [
        (f"pics/{k}.png", "ab"[k % 2], f"p{k // 2}", ("train", "test")[k % 2]) for k in range(4)
    ]
    for name in ("t.csv", "t.tsv"):
        listing = list_pictures(
            table(tmp_path / name, ("path", "class", "group", "split"), rows), Layout()
        )
        assert listing.kind == "one_label" and listing.labels == ("a", "b", "a", "b")
        assert listing.groups == ("p0", "p0", "p1", "p1")
        assert listing.splits == ("train", "test", "train", "test")
        assert len(listing.decided) == 4


def test_several_labels_and_numbers(tmp_path):
    for k in range(4):
        save(tmp_path / f"{k}.png", noise(k))
    rows = [(f"{k}.png", k % 2, int(k > 1), f"{k}.5", "cat|dog" if k else "cat") for k in range(4)]
    path = table(tmp_path / "t.csv", ("file", "red", "big", "age", "animals"), rows)
    several = list_pictures(path, Layout(class_from="red,big"))
    assert several.kind == "several_labels" and several.names == ("red", "big")
    assert several.labels == ((), ("red",), ("big",), ("red", "big"))
    numbers = list_pictures(path, Layout(numbers_from="age"))
    assert numbers.kind == "numbers" and numbers.labels == ((0.5,), (1.5,), (2.5,), (3.5,))
    together = list_pictures(path, Layout(class_from="animals"))
    assert together.kind == "several_labels" and together.labels[0] == ("cat",)


BAD_ROWS = {
    "names gone.png, which is not there": ("gone.png", "a", "1"),
    "again, after row 2": ("0.png", "a", "1"),
    "says nothing in the column label": ("1.png", "", "1"),
    "no number": ("1.png", "a", "nan"),
}


@pytest.mark.parametrize("says", BAD_ROWS)
def test_bad_rows_are_named_or_skipped(tmp_path, says):
    for k in range(3):
        save(tmp_path / f"{k}.png", noise(k))
    rows = [("0.png", "a", "1"), ("2.png", "b", "2"), BAD_ROWS[says]]
    path = table(tmp_path / "t.csv", ("file", "label", "size"), rows)
    layout = Layout(numbers_from="size") if "number" in says else Layout()
    with pytest.raises(UserError, match=f"Row 4 of .*{says}.*--skip-bad"):
        list_pictures(path, layout)
    kept = list_pictures(path, Layout(numbers_from=layout.numbers_from, skip_bad=True))
    assert kept.files == ("0.png", "2.png") and says in kept.skipped[0]


def test_tables_that_cannot_be_used(tmp_path):
    save(tmp_path / "0.png", noise(0))
    path = table(tmp_path / "t.csv", ("file", "kind"), [("0.png", "a")])
    for layout, says in (
        (Layout(), "no column for the class"),
        (Layout(class_from="kinds"), "did you mean 'kind'"),
        (Layout(class_from="kind"), "two or more classes"),
        (Layout(class_from="kind", numbers_from="kind"), "one task"),
    ):
        with pytest.raises(UserError, match=says):
            list_pictures(path, layout)
    (tmp_path / "u.csv").write_text("file,label\n0.png,a,b\n", encoding="utf-8")
    with pytest.raises(UserError, match="has not 2 cells"):
        list_pictures(tmp_path / "u.csv", Layout())
    (tmp_path / "v.csv").write_text("file,file\n0.png,a\n", encoding="utf-8")
    with pytest.raises(UserError, match="twice"):
        list_pictures(tmp_path / "v.csv", Layout())
