"""Lines of results: what was written is read; what was changed or cut is said."""

import json

import pytest

from capsnet.errors import UserError
from capsnet.lines import is_json, read_sealed, sealed, unsealed

FACTS = {"seed": 3, "error": 0.25, "note": "größer"}


def write(path, *lines, end="\n"):
    path.write_bytes("\n".join(lines).encode() + end.encode())
    return path


def test_what_is_sealed_is_read_back(tmp_path):
    assert unsealed(sealed(FACTS).encode()) == (FACTS, True)
    assert list(json.loads(sealed(FACTS))) == [*FACTS, "digest"]
    path = write(tmp_path / "x", sealed(FACTS), sealed({}), sealed({"seed": 4}))
    assert [*read_sealed(path)] == [(1, FACTS), (2, {}), (3, {"seed": 4})]


def test_no_changed_bit_of_a_line_passes():
    line = sealed({"a": 1}).encode()
    for k in range(8 * len(line)):
        changed = bytearray(line)
        changed[k // 8] ^= 1 << k % 8
        with pytest.raises(ValueError):
            unsealed(bytes(changed))


def test_old_lines_have_no_digest_and_stand_above(tmp_path, capsys):
    assert unsealed(json.dumps(FACTS).encode()) == (FACTS, False)
    path = write(tmp_path / "x", json.dumps(FACTS), sealed(FACTS))
    assert [facts for _, facts in read_sealed(path)] == [FACTS, FACTS]
    write(path, json.dumps(FACTS), json.dumps(FACTS), sealed(FACTS), json.dumps(FACTS))
    with pytest.raises(UserError, match=r"Line 4 of .*lines above it have one"):
        [*read_sealed(path)]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("size", "passes"), [(48, True), (49, False)])
def test_a_line_that_ends_like_a_digest_has_lost_its_name(size, passes):
    line = json.dumps({"a": 1, "dihest": "f" * size}).encode()
    if passes:
        assert unsealed(line)[1] is False
    else:
        with pytest.raises(ValueError, match="lost its name"):
            unsealed(line)
    assert unsealed(json.dumps({"note": "f" * size, "a": 1}).encode())[1] is False


@pytest.mark.parametrize("line", ["[1]", "3", '"a"', "null"])
def test_a_line_that_is_no_object_is_refused(line, tmp_path):
    with pytest.raises(UserError, match=r"Line 1 of .* \(it is no object\)"):
        [*read_sealed(write(tmp_path / "x", line))]


def test_half_a_line_at_the_end_is_left_out_and_said(tmp_path, capsys):
    whole = sealed(FACTS)
    path = write(tmp_path / "x", whole, whole[:-7], end="")
    assert [*read_sealed(path)] == [(1, FACTS)]
    assert "The last line" in capsys.readouterr().err
    write(path, whole, whole, end="")  # no newline, but whole
    assert len([*read_sealed(path)]) == 2
    assert capsys.readouterr().err == ""
    write(path, whole[:-7], whole)
    with pytest.raises(UserError, match="Line 1 of"):
        [*read_sealed(path)]


def test_no_file_has_no_lines_and_a_folder_is_a_sentence(tmp_path):
    assert [*read_sealed(tmp_path / "none")] == []
    (tmp_path / "file").touch()
    assert [*read_sealed(tmp_path / "file" / "none")] == []
    assert [*read_sealed(tmp_path / "file")] == []
    with pytest.raises(UserError, match=r"Could not read .*choose another folder"):
        [*read_sealed(tmp_path)]


def test_json_is_told_from_a_part_of_it():
    assert is_json(b'{"a": 1}') and not is_json(b'{"a": 1') and not is_json(b"")
