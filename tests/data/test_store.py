from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aetta.cli import app
from aetta.data import manifest, store
from aetta.data.manifest import PUBLISHED, Published, Remote
from aetta.errors import DataError, UnknownName
from tests.data.servers import Manners, serving


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return out.getvalue()


FOG, SNOW = tar_of({"fog/5/a.png": b"fog"}), tar_of({"snow/5/a.png": b"snow!", "frost/5/a.png": b"frost"})


@pytest.fixture
def weather(monkeypatch: pytest.MonkeyPatch) -> Published:
    files = (
        Remote("fog.tar", (), len(FOG), hashlib.sha256(FOG).hexdigest()),
        Remote("snow.tar", (), len(SNOW), md5=hashlib.md5(SNOW).hexdigest()),
    )
    made = Published("Weather", "https://example.org", files, holds="weather", folder="weather")
    monkeypatch.setitem(PUBLISHED, "weather", made)
    return made


def test_archives_are_got_checked_unpacked_and_noted(weather: Published, tmp_path: Path) -> None:
    with serving(fog_tar=Manners(FOG), snow_tar=Manners(SNOW)) as address:
        done = store.get("weather", tmp_path, mirrors=[address], wait=0)
        assert [each.trust for each in done] == ["sha256", "md5"]
        assert store.get("weather", tmp_path, mirrors=[address]) == []
    assert sorted(path.name for path in (tmp_path / "weather").iterdir()) == ["fog", "frost", "snow"]
    assert (tmp_path / "weather" / "snow" / "5" / "a.png").read_bytes() == b"snow!"
    assert not (tmp_path / "fog.tar").exists()
    notes = json.loads((tmp_path / "aetta-data.json").read_text())
    assert notes["weather"]["archives"]["snow.tar"]["sha256"] == hashlib.sha256(SNOW).hexdigest()
    assert all(finding.right for finding in store.verify("weather", tmp_path))


def test_what_was_done_is_not_done_again(weather: Published, tmp_path: Path) -> None:
    fog = Manners(FOG)
    with serving(fog_tar=fog) as address, pytest.raises(DataError, match=r"snow\.tar could not be got"):
        store.get("weather", tmp_path, mirrors=[address], wait=0)
    assert store.verify("weather", tmp_path)[-1].detail.startswith("snow.tar was never unpacked")
    with serving(fog_tar=fog, snow_tar=Manners(SNOW)) as address:
        done = store.get("weather", tmp_path, mirrors=[address], keep_archives=True)
    assert [each.path.name for each in done] == ["snow.tar"]
    assert len(fog.asked) == 1
    assert [finding.what for finding in store.verify("weather", tmp_path)] == ["snow.tar", "fog", "frost", "snow"]


def test_archives_put_there_by_hand_need_no_network(weather: Published, tmp_path: Path) -> None:
    (tmp_path / "fog.tar").write_bytes(FOG)
    (tmp_path / "snow.tar").write_bytes(SNOW)
    assert len(store.get("weather", tmp_path)) == 2


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda root: (root / "fog/5/a.png").write_bytes(b"gof"), "5/a.png has changed"),
        (lambda root: (root / "fog/5/a.png").unlink(), "5/a.png is missing"),
        (lambda root: (root / "fog/5/b.png").write_bytes(b"x"), "2 files now, 1 then"),
        (lambda root: (root / "fog").rename(root / "mist"), "gone, though fog.tar was unpacked to it"),
    ],
)
def test_a_change_after_unpacking_is_seen(weather: Published, tmp_path: Path, harm: object, says: str) -> None:
    (tmp_path / "fog.tar").write_bytes(FOG)
    (tmp_path / "snow.tar").write_bytes(SNOW)
    store.get("weather", tmp_path)
    harm(tmp_path / "weather")  # type: ignore[operator]
    wrong = [finding for finding in store.verify("weather", tmp_path) if not finding.right]
    assert len(wrong) == 1
    assert says in wrong[0].detail


def test_many_files_are_noted_by_name_and_size(
    weather: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "HASHED", 0)
    (tmp_path / "fog.tar").write_bytes(FOG)
    (tmp_path / "snow.tar").write_bytes(SNOW)
    store.get("weather", tmp_path)
    (tmp_path / "weather/fog/5/a.png").write_bytes(b"longer")
    assert [finding.right for finding in store.verify("weather", tmp_path)] == [False, True, True]


def test_nothing_of_anyone_else_is_overwritten(weather: Published, tmp_path: Path) -> None:
    (tmp_path / "weather" / "snow").mkdir(parents=True)
    (tmp_path / "fog.tar").write_bytes(FOG)
    (tmp_path / "snow.tar").write_bytes(SNOW)
    with pytest.raises(DataError, match="snow is there, and aetta did not put it there"):
        store.get("weather", tmp_path)
    assert not (tmp_path / "weather" / "frost").exists()
    assert not list((tmp_path / "weather").glob(".*"))


def test_archives_cannot_write_outside(weather: Published, tmp_path: Path) -> None:
    inside = tmp_path / "root"
    inside.mkdir()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        zipped.writestr("../../harm.txt", "x")
    for name, body in (("a.tar", tar_of({"../../harm.txt": b"x"})), ("a.zip", out.getvalue())):
        (inside / name).write_bytes(body)
        with suppress(DataError):  # tar refuses, zip leaves the dots out
            store._unpack(inside / name, inside / "weather")
        assert not list(tmp_path.glob("**/../harm.txt"))
        assert not (tmp_path / "harm.txt").exists()


def test_a_damaged_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(FOG[: len(FOG) // 2])
    with pytest.raises(DataError, match=r"a\.tar cannot be unpacked"):
        store._unpack(tmp_path / "a.tar", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_is_seen_before_the_download(
    weather: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(DataError, match="GB to be got and unpacked"):
        store.get("weather", tmp_path)


def test_what_no_program_may_fetch_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"registered people only.*n01440764.*imagenet/val"):
        store.get("imagenet", tmp_path)
    (tmp_path / "imagenet" / "val").mkdir(parents=True)
    assert store.get("imagenet", tmp_path) == []


def test_damaged_notes_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "aetta-data.json").write_text("{half")
    with pytest.raises(DataError, match=r"aetta-data\.json is damaged"):
        store.verify("cifar10", tmp_path)


def test_every_published_file_has_a_hash_a_size_and_several_addresses_or_a_way_by_hand() -> None:
    for name, known in PUBLISHED.items():
        assert known.page.startswith("http"), name
        for remote in known.files:
            assert remote.size, remote.file
            assert remote.sha256 or remote.md5, remote.file
            assert len(remote.sha256 or "0" * 64) == 64
            assert len(remote.md5 or "0" * 32) == 32
            assert remote.urls or known.by_hand
            assert all(url.startswith("https://") for url in remote.urls)
    with pytest.raises(UnknownName, match="did you mean 'cifar10-c'"):
        manifest.published("cifar10c")


def test_the_command_lists_gets_and_verifies(weather: Published, tmp_path: Path) -> None:
    root = str(tmp_path / "data")

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["data", *arguments, "--to", root])
        return result.exit_code, result.output

    assert "no data set in" in run("verify")[1]
    rows = {row["name"]: row for row in json.loads(run("list", "--json")[1])["data"]}
    assert rows["cifar10"]["files"] == ["cifar-10-python.tar.gz"]
    assert not rows["weather"]["present"]
    with serving(fog_tar=Manners(FOG), snow_tar=Manners(SNOW)) as address:
        code, says = run("get", "weather", "--mirror", address)
    assert code == 0, says
    assert "fog.tar: its SHA-256 is the published one" in says
    assert "snow.tar: its MD5 is the published one" in says
    assert "was in" in run("get", "weather")[1]
    assert json.loads(run("get", "weather", "--json")[1])["got"] == []
    assert "here" in run("list")[1]
    assert run("verify")[0] == 0
    (tmp_path / "data" / "weather" / "fog" / "5" / "a.png").write_bytes(b"gof")
    code, says = run("verify", "weather")
    assert code == 2
    assert "has changed since it was unpacked" in says
    findings = CliRunner().invoke(app, ["data", "verify", "--json", "--to", root])
    assert [row["right"] for row in json.loads(findings.stdout)["findings"]] == [False, True, True]
    code, says = run("get", "wether")
    assert code == 2
    assert "did you mean 'weather'" in says
