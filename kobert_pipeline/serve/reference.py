"""The page /docs: the server's OpenAPI description as plain HTML, which needs nothing from any other server."""

from collections.abc import Iterator
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; width: 100% } th, td { border: 1px solid #999; padding: .3em; text-align: left }
"""


def reference_page(openapi: dict[str, Any]) -> str:
    """All paths with the fields of their requests and answers."""
    schemas = openapi.get("components", {}).get("schemas", {})
    parts = "".join(
        part
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
        for part in _operation(method.upper(), path, operation, schemas)
    )
    title = escape(openapi["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1>"
        f'<p>For programs: <a href="openapi.json">openapi.json</a></p>{parts}</html>'
    )


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    yield f"<h2>{method} {escape(path)}</h2><p>{escape(operation.get('description', ''))}</p>"
    asked = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    for heading, schema in (("request", asked), ("answer", answer)):
        resolved = _resolved(schema or {}, schemas)
        # an answer of several forms is one row, without a name
        if fields := resolved.get("properties") or ({"": resolved} if "anyOf" in resolved else {}):
            rows = "".join(_row(name, field, schemas) for name, field in fields.items())
            yield f"<table><tr><th>{heading}</th><th>type</th><th></th></tr>{rows}</table>"


def _row(name: str, field: dict[str, Any], schemas: dict[str, Any]) -> str:
    cells = (name, _type(field, schemas), field.get("description", ""))
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _type(field: dict[str, Any], schemas: dict[str, Any]) -> str:
    """What a field may hold, in words: `string`, `list of integer`, `{text: string, label: string}`."""
    field = _resolved(field, schemas)
    if "anyOf" in field:
        return " or ".join(_type(part, schemas) for part in field["anyOf"])
    if "enum" in field or "const" in field:
        return " | ".join(map(str, field.get("enum", [field.get("const")])))
    if "properties" in field:
        return "{" + ", ".join(f"{name}: {_type(part, schemas)}" for name, part in field["properties"].items()) + "}"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), schemas)}"
    return str(field.get("type", "anything"))


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema itself, where it is a reference."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas[name] if name else schema
