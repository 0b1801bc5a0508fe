from __future__ import annotations

import hashlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from aetta.data.download import Fetched, fetch
from aetta.data.manifest import Remote
from aetta.errors import DataError
from tests.data.servers import Manners, serving

BODY = bytes(range(256)) * 40  # 10,240 bytes
SHA256, MD5 = hashlib.sha256(BODY).hexdigest(), hashlib.md5(BODY).hexdigest()


def remote(*urls: str, **known: Any) -> Remote:
    return Remote("x.tar", urls, **{"size": len(BODY), "sha256": SHA256, **known})


def get(wanted: Remote, folder: Path, **options: Any) -> Fetched:
    return fetch(wanted, folder, **{"wait": 0.0, "attempts": 3, "timeout": 5.0, **options})


def test_a_good_file_is_got_and_checked(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    with serving(x_tar=Manners(BODY)) as address:
        found = get(remote(f"{address}/x.tar?download=1"), tmp_path / "deep", progress=lambda *now: told.append(now))
    assert found.path.read_bytes() == BODY
    assert (found.trust, found.hashes.sha256, found.hashes.md5) == ("sha256", SHA256, MD5)
    assert told[-1][1:] == (len(BODY), len(BODY))
    assert not list(found.path.parent.glob("*.part"))


def test_a_server_that_breaks_off_is_asked_for_the_rest(tmp_path: Path) -> None:
    manners = Manners(BODY, break_after=4000)
    with serving(x_tar=manners) as address:
        found = get(remote(f"{address}/x.tar"), tmp_path)
    assert found.path.read_bytes() == BODY
    assert manners.asked == ["", "bytes=4000-", "bytes=8000-"]


def test_what_came_stays_for_the_next_time(tmp_path: Path) -> None:
    manners = Manners(BODY, break_after=1000)
    with serving(x_tar=manners) as address:
        with pytest.raises(DataError, match="broke off at 3,000 of 10,240 bytes"):
            get(remote(f"{address}/x.tar"), tmp_path)
        assert (tmp_path / "x.tar.part").read_bytes() == BODY[:3000]
        assert not (tmp_path / "x.tar").exists()
        manners.break_after = None
        get(remote(f"{address}/x.tar"), tmp_path)
    assert manners.asked[-1] == "bytes=3000-"
    assert (tmp_path / "x.tar").read_bytes() == BODY


def test_a_server_that_cannot_go_on_begins_anew(tmp_path: Path) -> None:
    manners = Manners(BODY, break_after=4000, breaks=1, ranges=False)
    with serving(x_tar=manners) as address:
        assert get(remote(f"{address}/x.tar"), tmp_path).path.read_bytes() == BODY


def test_a_server_that_goes_on_elsewhere_is_refused(tmp_path: Path) -> None:
    with (
        serving(x_tar=Manners(BODY, break_after=4000, ranges="wrong")) as address,
        pytest.raises(DataError, match="asked to go on at byte 4000, the server went on at 4001"),
    ):
        get(remote(f"{address}/x.tar"), tmp_path)


@pytest.mark.parametrize(
    ("size", "says"),
    [(len(BODY), "the file there has 20,000 bytes, the published one 10,240"), (None, "broke off at 10,240 of 20,000")],
)
def test_a_claim_of_more_than_comes_is_not_believed(tmp_path: Path, size: int | None, says: str) -> None:
    with serving(x_tar=Manners(BODY, claims=20_000)) as address, pytest.raises(DataError, match=says):
        get(remote(f"{address}/x.tar", size=size), tmp_path)
    assert not (tmp_path / "x.tar").exists()


def test_a_claim_of_less_than_there_is_ends_in_the_hash(tmp_path: Path) -> None:
    with serving(x_tar=Manners(BODY, claims=5_000)) as address:
        with pytest.raises(DataError, match="has 5,000 bytes, the published one 10,240"):
            get(remote(f"{address}/x.tar"), tmp_path)
        with pytest.raises(DataError, match=f"its SHA-256 is .*, not {SHA256}"):
            get(remote(f"{address}/x.tar", size=None), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("html", ["typed", "untyped"])
def test_a_web_page_is_not_a_file(tmp_path: Path, html: str) -> None:
    with (
        serving(x_tar=Manners(html=html)) as address,
        pytest.raises(DataError, match="a web page came instead of the file"),
    ):
        get(remote(f"{address}/x.tar", size=None), tmp_path)
    assert not (tmp_path / "x.tar").exists()


def test_a_page_does_not_spoil_what_came_before(tmp_path: Path) -> None:
    (tmp_path / "x.tar.part").write_bytes(BODY[:500])
    with serving(x_tar=Manners(html="typed", ranges=False)) as bad, serving(x_tar=Manners(BODY)) as good:
        found = get(remote(f"{bad}/x.tar", f"{good}/x.tar"), tmp_path)
    assert found.path.read_bytes() == BODY


@pytest.mark.parametrize(("known", "says"), [({"sha256": SHA256}, "SHA-256"), ({"sha256": None, "md5": MD5}, "MD5")])
def test_a_wrong_hash_is_refused_and_nothing_is_left(tmp_path: Path, known: dict[str, Any], says: str) -> None:
    with (
        serving(x_tar=Manners(BODY[::-1])) as address,
        pytest.raises(DataError, match=f"its {says} is"),
    ):
        get(remote(f"{address}/x.tar", **known), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_next_mirror_is_asked(tmp_path: Path) -> None:
    gone, wrong, good = Manners(BODY, status=[404]), Manners(BODY[::-1]), Manners(BODY)
    with serving(x_tar=gone) as first, serving(x_tar=wrong) as second, serving(x_tar=good) as third:
        found = get(remote(f"{first}/x.tar", f"{second}/x.tar"), tmp_path, mirrors=[f"{third}/"])
        assert (found.source, gone.asked) == (f"{third}/x.tar", [])
        found.path.unlink()
        found = get(remote(f"{first}/x.tar", f"{second}/x.tar", f"{third}/x.tar"), tmp_path)
    assert found.source == f"{third}/x.tar"
    assert found.path.read_bytes() == BODY


def test_a_beginning_from_elsewhere_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "x.tar.part").write_bytes(b"z" * 500)
    manners = Manners(BODY)
    with serving(x_tar=manners) as address:
        assert get(remote(f"{address}/x.tar"), tmp_path).path.read_bytes() == BODY
    assert manners.asked == ["bytes=500-", ""]


def test_a_beginning_longer_than_the_file_is_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "x.tar.part").write_bytes(BODY + b"more")
    with serving(x_tar=Manners(BODY)) as address:
        assert get(remote(f"{address}/x.tar"), tmp_path).path.read_bytes() == BODY


def test_a_server_in_trouble_is_asked_again(tmp_path: Path) -> None:
    with serving(x_tar=Manners(BODY, status=[503, 500])) as address:
        assert get(remote(f"{address}/x.tar"), tmp_path).path.read_bytes() == BODY


def test_no_network_says_which_file_to_put_where(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and never listening
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/x.tar"
        with pytest.raises(DataError) as caught:
            get(remote(dead, "ftp://example.org/x.tar"), tmp_path)
    says = str(caught.value)
    assert dead in says
    assert "refused" in says
    assert "only http and https" in says
    assert f"put the file x.tar (10,240 bytes, sha256 {SHA256}) at {tmp_path / 'x.tar'}" in says


def test_a_name_nobody_knows_is_not_waited_for(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(DataError, match=r"http://nowhere\.invalid/x\.tar: no answer"):
        fetch(remote("http://nowhere.invalid/x.tar"), tmp_path, wait=60.0)
    assert time.monotonic() - start < 30


def test_a_file_put_there_by_hand_is_checked_and_used(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(BODY)
    assert get(remote(), tmp_path).source == str(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(BODY[:-1])
    with pytest.raises(DataError, match=r"x\.tar is not the published file: it has 10,239 bytes.*delete it"):
        get(remote(), tmp_path)


def test_where_no_hash_is_published_the_first_use_counts(tmp_path: Path) -> None:
    unknown = {"sha256": None, "size": None}
    with serving(x_tar=Manners(BODY)) as address:
        first = get(remote(f"{address}/x.tar", **unknown), tmp_path / "a")
        assert first.trust == "first use"
        again = get(remote(f"{address}/x.tar", **unknown), tmp_path / "b", known_sha256=first.hashes.sha256)
        assert again.trust == "sha256 of the first use"
    with serving(x_tar=Manners(BODY[::-1])) as address, pytest.raises(DataError, match="when it was first used here"):
        get(remote(f"{address}/x.tar", **unknown), tmp_path / "c", known_sha256=first.hashes.sha256)


def test_without_a_length_the_published_size_counts(tmp_path: Path) -> None:
    manners = Manners(BODY, length=False, break_after=6000)
    with serving(x_tar=manners) as address:
        assert get(remote(f"{address}/x.tar"), tmp_path).path.read_bytes() == BODY
