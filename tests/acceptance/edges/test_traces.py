from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from runtime.app import running
from tests.support.receiver import Receiver
from tests.support.stack import Stack
from tests.support.world import World

TRACE_ID, SPAN_ID = "4b" * 16, "00f067aa0ba902b7"


@pytest.fixture
def extra_settings(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    return {"otlp_endpoint": receiver.url, "trace_share": 0.0}


@pytest.mark.own_service
async def test_sampled_play_is_traced_to_its_commit(own_world: World, stack: Stack, receiver: Receiver) -> None:
    game_id = await own_world.wheel()
    settings = replace(stack.process.settings, core_rpc_addresses=(stack.process.rpc_address,), consumer_port=0)
    async with running(settings, ["consumer"]) as edge:
        world = replace(own_world, stack=replace(stack, process=edge))
        session = await world.session(game_id)  # Not sampled: no spans.
        sent = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"}
        body = {"session_id": session}
        played = await world.stack.consumer("POST", f"/games/{game_id}/play", body, player="ann", headers=sent)
        assert (played.code, played.envelope["trace_id"]) == ("OK", TRACE_ID)
        spans: dict[str, Any] = {}
        while len(spans) < 4:
            got = await receiver.next()
            for resource in ExportTraceServiceRequest.FromString(got.body).resource_spans:
                spans |= {span.span_id.hex(): span for scope in resource.scope_spans for span in scope.spans}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE_ID}
    (commit,) = (span for span in spans.values() if span.name == "commit")
    chain = [commit]
    while (parent := spans.get(chain[-1].parent_span_id.hex())) is not None:
        chain.append(parent)
    assert [span.name for span in chain] == ["commit", "Play", "Play", "POST /api/v1/games/{id}/play"]
    assert chain[-1].parent_span_id.hex() == SPAN_ID
