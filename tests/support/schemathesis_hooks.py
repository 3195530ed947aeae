"""Existing ids (KNOWN: JSON of tenant_id, player_id, ids by the word before {id}) and two checks for schemathesis."""

import json
import os
from typing import Any

import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection

KNOWN = json.loads(os.environ["KNOWN"])


def one_of(path: str, said: Any) -> Any:
    """Mostly an id that exists; what was generated where the path's kind is not known, and now and then."""
    ids = next((ids for kind, ids in KNOWN["ids"].items() if f"/{kind}/{{id}}" in path), [])
    choice = sum(map(ord, str(said))) % (len(ids) + 1)
    return ids[choice] if choice < len(ids) else said


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    if path_parameters and "id" in path_parameters:
        path_parameters["id"] = one_of(context.operation.path, path_parameters["id"])
    return path_parameters


@schemathesis.hook
def map_query(context: Any, query: Any) -> Any:
    """Core's requests are about the test's tenant."""
    if query and "scope.tenant_id" in query:
        query["scope.tenant_id"] = KNOWN["tenant_id"]
        query.pop("scope.merchant_id", None)
        if "player_id" in query:
            query["player_id"] = KNOWN["player_id"]
    return query


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    if isinstance(body, dict) and isinstance(body.get("scope"), dict):
        body["scope"] = {"tenant_id": KNOWN["tenant_id"]}
        if isinstance(body.get("player_id"), str):
            body["player_id"] = KNOWN["player_id"]
    return body


@schemathesis.check
def tells_a_reason_that_is_documented(context: Any, response: Any, case: Any) -> None:
    """An error's reason is one of those that the operation's document has for its HTTP status."""
    if response.status_code < 400 or response.status_code == 405:
        return
    reason = response.json()["data"]["reason"]
    http = str(response.status_code)
    answer = case.operation.definition.raw["responses"].get(http, {})
    examples = answer.get("content", {}).get("application/json", {}).get("examples", {})
    # The last two may meet any request, as the document's introduction says.
    assert reason in (*examples, "UNKNOWN_ROUTE", "MALFORMED_REQUEST"), f"{reason} is not documented for {http}"


@schemathesis.check
def refuses_what_breaks_the_schema(context: Any, response: Any, case: Any) -> None:
    """As schemathesis' own check has it, but for null, which is "not given", and text, which any body is."""
    plain = case.media_type in ("text/csv", "text/plain")
    if (
        case.operation.path.startswith("/api/v1/admin")
        and not plain
        and response.status_code != 413  # That is a refusal too, of what is too large to be looked at.
        and "null" not in json.dumps(case.body, default=str)
    ):
        negative_data_rejection(context, response, case)
