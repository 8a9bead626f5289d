"""Short names of remote functions stay with whom they were given to first."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginehost.databus.aliases import Aliases


async def test_the_first_has_the_name_also_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    names = Aliases(file)
    assert names.claim("add", "calc.add", lambda _: True)
    assert not names.claim("add", "other.add", lambda _: True)
    names.close()
    again = Aliases(file)
    assert not again.claim("add", "other.add", lambda _: True)
    assert again.claim("add", "calc.add", lambda _: False)


async def test_a_name_that_is_not_free_is_given_to_nobody(tmp_path: Path) -> None:
    names = Aliases(tmp_path / "names.json")
    assert not names.claim("add", "calc.add", lambda _: False)
    assert names.claim("add", "other.add", lambda _: True)
    names.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"add": 7}', "\ud800"])
async def test_a_file_that_cannot_be_read_starts_anew(content: str, tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    file.write_bytes(content.encode(errors="surrogatepass"))
    names = Aliases(file)
    assert names.claim("add", "calc.add", lambda _: True)
    names.close()
    assert Aliases(file).claim("add", "calc.add", lambda _: False)


async def test_where_nothing_can_be_written_names_hold_until_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    names = Aliases(tmp_path / "file" / "names.json")
    assert names.claim("add", "calc.add", lambda _: True)
    names.close()
    assert names.claim("add", "calc.add", lambda _: False)
