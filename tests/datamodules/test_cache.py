"""The cache: whole files or none, checked when read, other recipes apart."""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cfgen.errors import UserError
from datamodules.sources import cache

RECIPE = {"seed": 0}


def made() -> cache.Arrays:
    return {"train/images": np.arange(100_000, dtype=np.uint8), "train/slant": np.linspace(0, 1, 9, dtype=np.float32)}


def never() -> cache.Arrays:
    raise AssertionError("the cache was not used")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def assert_same(a: cache.Arrays, b: cache.Arrays) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], strict=True)


def test_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    assert_same(cache.prepared(folder, "set", RECIPE, made), made())
    assert_same(cache.prepared(folder, "set", RECIPE, never), made())
    assert files(folder) == [cache.location(folder, "set", RECIPE).name]


def test_recipes_are_kept_apart(tmp_path: Path) -> None:
    cache.prepared(tmp_path, "set", {"seed": 0, "limit": None}, made)
    assert cache.location(tmp_path, "set", {"limit": None, "seed": 0}).exists()
    with pytest.raises(AssertionError, match="not used"):
        cache.prepared(tmp_path, "set", {"seed": 1, "limit": None}, never)


def damage_byte(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [damage_byte, lambda d: d[:-1], lambda d: d[:50], lambda d: b"", lambda d: d + b"!"])
def test_damaged_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    cache.prepared(tmp_path, "set", RECIPE, made)
    path = cache.location(tmp_path, "set", RECIPE)
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert_same(cache.prepared(tmp_path, "set", RECIPE, made), made())
    assert [record.getMessage().count(str(path)) for record in caplog.records] == [1]
    assert_same(cache.prepared(tmp_path, "set", RECIPE, never), made())


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["numpy.savez", "os.fsync", "os.replace"])
def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(where, lambda *_, **__: full_disk())
        with pytest.raises(UserError, match=r"cannot write .*No space left on device"):
            cache.prepared(tmp_path, "set", RECIPE, made)
    assert files(tmp_path) == []
    assert_same(cache.prepared(tmp_path, "set", RECIPE, made), made())


def test_full_disk_keeps_the_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there is replaced by something better or stays."""
    cache.prepared(tmp_path, "set", RECIPE, made)
    path = cache.location(tmp_path, "set", RECIPE)
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(UserError):
        cache.prepared(tmp_path, "set", RECIPE, made)
    assert files(tmp_path) == [path.name]


def test_failure_while_making_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        cache.prepared(tmp_path, "set", RECIPE, never)
    assert files(tmp_path) == []


def test_many_at_once(tmp_path: Path) -> None:
    """One makes the set, the others wait for it."""
    makers = []

    def slowly() -> cache.Arrays:
        makers.append(threading.get_ident())
        time.sleep(0.2)
        return made()

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.prepared, tmp_path, "set", RECIPE, slowly) for _ in range(4)]
        for answer in asked:
            assert_same(answer.result(), made())
    assert len(makers) == 1


def test_leftovers_of_a_killed_process_go(tmp_path: Path) -> None:
    path = cache.location(tmp_path, "set", RECIPE)
    path.with_name(f".{path.name}.12345.tmp").write_bytes(b"half")
    path.with_name(f".{path.name}.lock").touch()
    cache.prepared(tmp_path, "set", RECIPE, made)
    assert files(tmp_path) == [path.name]


def test_no_pickles(tmp_path: Path) -> None:
    """A file with objects in it is refused, whatever its checksum."""
    cache._write(cache.location(tmp_path, "set", RECIPE), {"a": np.array([{}], dtype=object)})
    with pytest.raises(cache._DamagedError):
        cache._read(cache.location(tmp_path, "set", RECIPE))


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Not a directory"):
        cache.prepared(tmp_path / "file" / "cache", "set", RECIPE, made)


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_cache_dir() == tmp_path / "cfgen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.default_cache_dir() == Path.home() / ".cache" / "cfgen"
