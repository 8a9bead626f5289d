"""A small REST service for the example current_weather.smss.

Start it with ``python smss/services/weather_service.py [PORT]`` (8585 by default); it needs nothing but
Python. The weather is made up, and the same every time.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

# city: temperature in °C, wind in km/h, sky
WEATHER = {
    "berlin": (14.5, 12.0, "clouds"),
    "nairobi": (24.0, 8.5, "sun"),
    "reykjavík": (3.5, 31.0, "rain"),
    "tokyo": (19.0, 15.5, "sun"),
}


def weather(city: str, units: str) -> tuple[int, dict[str, object]]:
    """The status and the body of one answer."""
    if units not in ("metric", "imperial"):
        return 400, {"error": "units must be metric or imperial"}
    if city.casefold() not in WEATHER:
        return 404, {"error": f"no weather for {city}", "known": sorted(WEATHER)}
    temperature, wind, sky = WEATHER[city.casefold()]
    if units == "imperial":
        temperature, wind = temperature * 9 / 5 + 32, round(wind / 1.609344, 1)
    return 200, {"city": city, "units": units, "now": {"temperature": temperature, "wind": wind, "sky": sky}}


class Handler(BaseHTTPRequestHandler):
    """``GET /v1/weather/CITY?units=metric``."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        parts = address.path.split("/")
        if parts[:3] == ["", "v1", "weather"] and len(parts) == 4:
            units = parse_qs(address.query).get("units", ["metric"])[0]
            status, body = weather(unquote(parts[3]), units)
        else:
            status, body = 404, {"error": "no such address"}
        data = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser(description="A small REST service for the example current_weather.smss.")
    parser.add_argument(
        "port", nargs="?", type=int, default=8585, help="where it listens (8585; 0 is a free one)"
    )
    port: int = parser.parse_args().port
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as error:
        parser.error(f"it cannot listen on port {port}: {error}; name another one")
    with server:
        print(f"weather at http://127.0.0.1:{server.server_port}/v1/weather/Berlin", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
