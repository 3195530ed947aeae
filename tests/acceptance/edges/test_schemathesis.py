"""schemathesis against the live stack: no 5xx, no answer outside the documents, and every invariant stands."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.operations import furnish
from tests.support.seed import SEED
from tests.support.stack import Stack
from tests.support.world import World

NIGHTLY = bool(os.environ.get("TOMBOLA_NIGHTLY"))

SECONDS = os.environ.get("SCHEMATHESIS_SECONDS", "15" if NIGHTLY else "4")

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "10" if NIGHTLY else "4")

CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "missing_required_header", "unsupported_method", "ignored_auth"),
    *("use_after_free", "tells_a_reason_that_is_documented", "refuses_what_breaks_the_schema"),
)
"""Not positive_data_acceptance: that a prize exists, or a name is free, is no schema's to say."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_answers_to_generated_requests_are_as_documented(stack: Stack, surface: str, tmp_path: Path) -> None:
    ids = await furnish(stack)
    player, of_kinds = ids["player"], {f"{kind}s": [identifier] for kind, identifier in ids.items()}
    known = {"tenant_id": stack.tenant_id, "player_id": player, "ids": of_kinds}
    token = stack.token(player) if surface == "consumer" else stack.token("staff", ("admin", "platform"))
    base = getattr(stack.process, f"{surface}_url")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{base}/api/v1/openapi.json", "--url", base),
        *(() if surface == "core" else ("--header", f"Authorization: Bearer {token}")),
        *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", EXAMPLES),
        *("--max-time", SECONDS, "--seed", str(SEED), "--checks", ",".join(CHECKS)),
        # What goes on until somebody leaves has no answer that ends.
        *("--exclude-operation-id", "WatchLive"),
        # Says 503 where a store does not answer in time, as on a machine that stands still for a moment.
        *("--exclude-path", "/readyz"),
        *("--generation-database", "none", "--no-shrink", "--continue-on-failure", "--no-color", "--warnings", "off"),
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks", "KNOWN": json.dumps(known)}
        | {"PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    print(output.decode())
    assert process.returncode == 0, "schemathesis found what its output tells"
    await World(stack, ids["campaign"]).check()
