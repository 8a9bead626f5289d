"""Files, folders and archives as SEMOSS writes them, and archives as nobody should."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SUMS = "Order Sums__0b4d7c2e-1111-4222-8333-944455566677"
TIDES = "Tide Times__77aa0c1e-2222-4333-8444-955566677788"
_FUNCTION = "prerna.engine.impl.function."

SUMS_SMSS = f"""#Base Properties
ENGINE\t0b4d7c2e-1111-4222-8333-944455566677
ENGINE_ALIAS\tOrder Sums
ENGINE_TYPE\t{_FUNCTION}LocalPythonFunctionEngine

FUNCTION_TYPE\tLOCAL_PYTHON
NAME\tOrder Sums
PYTHON_FILE_NAME\torder_sums.py
FUNCTION_NAME\tsum_order
FUNCTION_DESCRIPTION\tSums the positions of an order
FUNCTION_PARAMETERS\t[{{"parameterName":"amounts","parameterType":"array","parameterDescription":"Each"}}]
FUNCTION_REQUIRED_PARAMETERS\t["amounts"]
IDLE_TIMEOUT\t20
PIPELINE\tpipeline.json
MCP_ENABLED\tfalse
"""
SUMS_SCRIPT = "def sum_order(amounts):\n    return sum(amounts)\n"

TIDES_SMSS = f"""ENGINE = 77aa0c1e-2222-4333-8444-955566677788
ENGINE_ALIAS = Tide Times
ENGINE_TYPE = {_FUNCTION}RESTFunctionEngine
FUNCTION_TYPE = REST
URL = https://tides.example.invalid/v2/next
HTTP_METHOD = get
CONTENT_TYPE = json
HEADERS = {{"Accept": "application/json"}}
FUNCTION_NAME = next_tide
FUNCTION_DESCRIPTION = Next high and low water of one harbour
FUNCTION_PARAMETERS = [{{"parameterName":"north","parameterType":"String","parameterDescription":"Degrees"}}]
FUNCTION_REQUIRED_PARAMETERS = ["north"]
"""

NEW_LAYOUT = {  # of 2026
    f"{SUMS}.smss": SUMS_SMSS,
    f"{SUMS}/app_root/version/assets/order_sums.py": SUMS_SCRIPT,
    f"{SUMS}/Order Sums_metadata.json": "{}",
}
OLD_LAYOUT = {f"{SUMS}.smss": SUMS_SMSS, f"{SUMS}/order_sums.py": SUMS_SCRIPT}  # of 2024

REACTOR_SMSS = """\
ENGINE\t9
ENGINE_ALIAS\tSum
ENGINE_TYPE\tprerna.engine.impl.function.AbstractReactorFunctionEngine
REACTOR_CLASS_NAME\t{module}.SumReactor
FUNCTION_NAME\tsum_up
FUNCTION_DESCRIPTION\tSums up
FUNCTION_PARAMETERS\t[{{"parameterName":"lines","parameterType":"array"}}]
"""

REACTOR_SCRIPT = """\
from enginehost.reactor import Reactor
{imports}

class SumReactor(Reactor):
    keys_to_get = ("lines",)

    def execute(self):
        return add(self.get_nouns("lines"))
"""

ADDS = "def add(lines):\n    return sum(lines)\n"

REACTOR_FILES = {
    "Sum__9.smss": REACTOR_SMSS.format(module="lib.sums"),
    "lib/sums.py": REACTOR_SCRIPT.format(imports="") + ADDS,
}


def engine(simple: str, number: int = 1, more: str = "", package: str = _FUNCTION) -> dict[str, str]:
    """A file of another class: ``E<number>__<number>.smss``."""
    text = f"ENGINE\t{number}\nENGINE_ALIAS\tE{number}\nENGINE_TYPE\t{package}{simple}\n"
    return {
        f"E{number}__{number}.smss": f"{text}FUNCTION_NAME\tf{number}\nFUNCTION_DESCRIPTION\tSays\n{more}"
    }


def python(script: str, number: int = 1, more: str = "") -> dict[str, str]:
    """A LocalPython engine ``f<number>`` with its script; none where ``script`` is empty."""
    files = engine("LocalPythonFunctionEngine", number, f"PYTHON_FILE_NAME\tmain.py\n{more}")
    return files | ({f"E{number}__{number}/main.py": script} if script else {})


def lay_out(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def export(archive: Path, files: Mapping[str, str]) -> Path:
    """An export archive as Java writes it: deflated, names in UTF-8, no permissions."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files.items():
            made.writestr(name, text)
    return archive


def tree(folder: Path) -> dict[str, str]:
    """All files below ``folder`` with their texts."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass
class Raw:
    """An entry of which every field can be a lie. ``told`` is the size that the directory tells."""

    name: bytes
    data: bytes = b"x"
    flags: int = 0
    mode: int = 0
    method: int = zipfile.ZIP_DEFLATED
    told: int | None = None


def raw_archive(archive: Path, entries: Iterable[Raw]) -> Path:
    """An archive of such entries (APPNOTE.TXT 4.3)."""
    body, directory, count = bytearray(), bytearray(), 0
    for one in entries:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        deflated = packer.compress(one.data) + packer.flush()
        packed = one.data if one.method == zipfile.ZIP_STORED else deflated
        told = len(one.data) if one.told is None else one.told
        start = len(body)
        fields = (20, one.flags, one.method, 0, 33, zlib.crc32(one.data), len(packed), told, len(one.name))
        body += b"PK\3\4" + struct.pack("<5H3L2H", *fields, 0) + one.name + packed
        directory += b"PK\1\2" + struct.pack("<6H3L5H2L", 0x314, *fields, 0, 0, 0, 0, one.mode << 16, start)
        directory += one.name
        count += 1
    ending = struct.pack("<4H2LH", 0, 0, count, count, len(directory), len(body), 0)
    archive.write_bytes(body + directory + b"PK\5\6" + ending)
    return archive
