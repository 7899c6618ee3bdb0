"""Reads the OpenAPI document and looks whether it is valid, for the tests of its parts."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

DOCUMENT = "/api/openapi.json"


def document(client: Client) -> dict[str, Any]:
    response = client.get(DOCUMENT)
    assert response.status_code == 200
    assert "json" in response["Content-Type"]
    result: dict[str, Any] = response.json()
    return result


def is_used(name: str, described: dict[str, Any]) -> bool:
    return f'"#/components/schemas/{name}"' in json.dumps(described)


def operations_of(described: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for item in described["paths"].values() for operation in item.values()]


def references_of(node: Any) -> set[str]:
    if isinstance(node, dict):
        # A column may be called $ref: then it has a schema, and refers to nothing.
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references_of, node.values()))
    return set().union(*map(references_of, node)) if isinstance(node, list) else set()


def validate(described: dict[str, Any]) -> None:
    """Check a document against the specification's own schema, every schema in it, and where references lead."""
    validate_schema(described)
    OpenAPIV31SpecValidator(described).validate()
    for schema in described["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for target in references_of(described):
        place: Any = described
        for name in target.removeprefix("#/").split("/"):
            place = place[name]
    names = [operation["operationId"] for operation in operations_of(described)]
    assert len(names) == len({name.replace("_", "") for name in names})
    for operation in operations_of(described):
        sent = [(each["in"], each["name"]) for each in operation.get("parameters", ())]
        assert len(sent) == len(set(sent))
    assert [name for name in described["components"]["schemas"] if not is_used(name, described)] == []


def validator(described: dict[str, Any], name: str) -> Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def operation_of(described: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the operation with this id."""
    (operation,) = (each for each in operations_of(described) if each["operationId"] == name)
    return operation


def parameters_of(operation: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in operation["parameters"]}


def contents_of(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of its rows by media type."""
    content = operation["responses"]["200"]["content"]
    return {media_type: each["schema"] for media_type, each in content.items()}


def schema_of(described: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body in JSON."""
    reference = body["content"]["application/json"]["schema"]["$ref"]
    schema: dict[str, Any] = described["components"]["schemas"][reference.rpartition("/")[2]]
    return schema
