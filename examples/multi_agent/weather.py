"""A specialist: an agent that knows the weather, has others reckon, and talks to no person itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from enginehost import Agent, tool
from enginehost.errors import InvalidRequest


@dataclass
class Weather:
    city: str
    temperature: float
    sky: str


KNOWN = {
    one.city.casefold(): one
    for one in (
        Weather("Lisbon", 21.0, "sunny"),
        Weather("Oslo", -4.5, "snowing"),
        Weather("Nairobi", 24.0, "cloudy"),
        Weather("Tokyo", 16.5, "raining"),
    )
}


class WeatherSpecialist(Agent):
    """Knows the weather of cities, and compares it."""

    model = "forecaster"
    instructions = (
        "You know the weather only from your tools. Let the calculator work out differences and means. "
        "Answer in one sentence."
    )
    service_name = "Weather"
    specializations = ("weather",)
    agent_type = "SPECIALIZED_AGENT"
    tool_tags = ("math",)

    @tool(read_only=True)
    def weather_now(self, city: str) -> Weather:
        """The weather in a city now; temperatures in degrees Celsius."""
        found = KNOWN.get(city.strip().casefold())
        if found is None:
            known = ", ".join(one.city for one in KNOWN.values())
            raise InvalidRequest(f"there is no weather station in {city!r}; there are some in {known}")
        return found

    @tool(read_only=True)
    def temperatures(self, cities: list[str]) -> dict[str, float]:
        """The temperatures in some cities, in degrees Celsius."""
        return {one.city: one.temperature for one in map(self.weather_now, cities)}


if __name__ == "__main__":
    asyncio.run(WeatherSpecialist().run())
