"""Where a result goes: never is something that is no regular file replaced by one."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from aisimulate.core.errors import InputError
from aisimulate.report.files import WriteError, check_writable, write_file, write_lines
from aisimulate.report.scratch import open_scratch


def read_in_background(path, into):
    reader = threading.Thread(target=lambda: into.append(path.read_text()))
    reader.start()
    return reader


def test_a_new_file_is_readable_by_all_and_an_old_one_keeps_its_mode(tmp_path):
    target = tmp_path / "out.json"
    write_file(target, "new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    target.chmod(0o600)
    write_file(target, "newer")
    assert (stat.S_IMODE(target.stat().st_mode), target.read_text()) == (0o600, "newer")


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    target = tmp_path / "out.json"
    write_file(target, "old")
    with pytest.raises(UnicodeEncodeError):
        write_file(target, "new \ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert target.read_text() == "old"


@pytest.mark.parametrize("there_before", [True, False])
def test_a_link_stays_a_link(tmp_path, there_before):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "out.json", tmp_path / "link.json"
    if there_before:
        real.write_text("old")
    link.symlink_to(real)
    check_writable(link)
    write_file(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["out.json"]


@pytest.mark.parametrize("through_a_link", [True, False])
def test_a_pipe_is_written_to(tmp_path, through_a_link):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = pipe
    if through_a_link:
        target = tmp_path / "link"
        target.symlink_to(pipe)
    check_writable(target)
    received = []
    reader = read_in_background(pipe, received)
    write_file(target, "text")
    reader.join()
    assert received == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert target.is_symlink() is through_a_link


def test_the_file_behind_stdout_is_not_replaced(tmp_path, monkeypatch):
    target = tmp_path / "all.txt"
    with target.open("w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        stdout.write("before\n")
        write_file(target, "result\n")
        stdout.write("after\n")
    assert target.read_text() == "before\nresult\nafter\n"


def test_a_failed_write_is_one_line_that_names_the_file(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(WriteError) as info:
        write_file(tmp_path / "x.json", "text")
    assert str(info.value) == f"--output {tmp_path / 'x.json'}: No space left on device"


def test_what_cannot_be_written_is_named_before_the_work(tmp_path):
    loop, file = tmp_path / "loop", tmp_path / "file"
    loop.symlink_to(loop)
    file.write_text("")
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to(tmp_path / "none" / "x.json")
    for path, words in [
        (tmp_path / "none" / "x.json", "none is not a directory"),
        (nowhere, "none is not a directory"),
        (tmp_path, "is a directory, expected a file"),
        (file / "x.json", "Not a directory"),
        (loop, "symbolic links"),
    ]:
        with pytest.raises(InputError, match=words) as info:
            check_writable(path)
        assert str(info.value).startswith(f"--output {path}: ")


def test_a_file_that_may_not_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    # A superuser may write anywhere, so the answer of the system is replaced.
    target = tmp_path / "out.json"
    target.write_text("old")
    monkeypatch.setattr("os.access", lambda path, mode: path != target)
    with pytest.raises(InputError, match="is not writable"):
        check_writable(target)


def test_a_folder_that_may_not_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    def refuse(**where):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match=r"cannot write in .*: Permission denied"):
        check_writable(tmp_path / "out.json")


def test_an_output_that_is_an_input_is_refused(tmp_path):
    source = tmp_path / "trace.jsonl"
    source.write_text("{}\n")
    link = tmp_path / "link"
    link.symlink_to(source)
    for path in (source, link):
        with pytest.raises(InputError, match="would overwrite the input"):
            check_writable(path, [tmp_path / "absent.yaml", source])
    assert source.read_text() == "{}\n"


def test_a_name_that_leaves_no_room_for_a_scratch_name_still_works(tmp_path):
    target = tmp_path / ("n" * 250)
    check_writable(target)
    write_file(target, "text")
    assert target.read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_name_that_is_too_long_is_refused_before_the_work(tmp_path):
    with pytest.raises(InputError, match="too long"):
        check_writable(tmp_path / ("n" * 300))


def test_an_output_in_an_input_folder_is_refused(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.jsonl").write_text("{}\n")
    for path in (folder / "a.jsonl", folder / "new.jsonl"):
        with pytest.raises(InputError, match="lies in the input folder"):
            check_writable(path, [folder])
    check_writable(tmp_path / "beside.jsonl", [folder])
    assert (folder / "a.jsonl").read_text() == "{}\n"


def test_what_a_dead_writer_left_is_swept_up_by_the_next_write(tmp_path):
    target = tmp_path / "out.json"
    handle, at_work = open_scratch(target)
    (tmp_path / ".out.json.dead_1.tmp").write_text("half of a resu")
    (tmp_path / ".other.json.dead.tmp").write_text("of somebody else")
    write_file(target, "text")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([at_work.name, ".other.json.dead.tmp", "out.json"])
    os.close(handle)


def test_a_reader_that_has_gone_is_no_failure(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: pipe.open("rb", buffering=0).read(1))
    reader.start()
    write_lines(pipe, ("x" * 1000 for _ in range(1000)))
    reader.join()
