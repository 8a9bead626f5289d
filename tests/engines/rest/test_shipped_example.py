import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from enginehost.errors import ExecutionFailed
from enginehost.testing import load_engine
from enginehost_engines.rest import RestEngine

SMSS = Path(__file__).parents[3] / "smss"


async def test_the_weather_example_works_with_the_service_that_ships_with_it(
    tmp_path: Path, kit: Any
) -> None:
    service = subprocess.Popen(
        [sys.executable, SMSS / "services/weather_service.py", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert service.stdout is not None
        port = re.search(r":(\d+)/", service.stdout.readline())
        assert port is not None
        text = (SMSS / "current_weather.smss").read_text(encoding="utf-8").replace(":8585", f":{port[1]}")
        loaded = load_engine(RestEngine, text, tmp_path)
        assert not loaded.record.diagnostics
        engine: Any = loaded.engine
        call = kit.call()
        assert await engine.execute({"city": "Berlin"}, call) == {
            "temperature": 14.5,
            "wind": 12.0,
            "sky": "clouds",
        }
        cold = await engine.execute({"city": "Reykjavík", "units": "imperial"}, call)
        assert cold == {"temperature": 38.3, "wind": 19.3, "sky": "rain"}
        with pytest.raises(ExecutionFailed, match=r"answered 404.*no weather for a b"):
            await engine.execute({"city": "a b"}, call)
        await engine.close()
    finally:
        service.terminate()
        service.communicate(timeout=10)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--help"], 0, "current_weather.smss"),
        (["x"], 2, "invalid int"),
        (["99999"], 2, "cannot listen on port"),
    ],
)
def test_the_service_says_how_it_is_started(words: list[str], code: int, said: str) -> None:
    command = [sys.executable, str(SMSS / "services/weather_service.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
