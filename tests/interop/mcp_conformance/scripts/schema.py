"""A tool whose parameters use what JSON Schema 2020-12 has."""


def json_schema_2020_12_tool(**given: object) -> str:
    return ", ".join(sorted(given))


def custom_headers(region: str, priority: int = 0, verbose: bool = False) -> str:
    return f"{region} {priority} {verbose}"
