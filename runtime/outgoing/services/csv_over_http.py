"""CSV by HTTP: each event is one line of text/csv.

POST sends the line to the URL, with `webhook-id` to detect a repeated one. PUT writes a file of one line, whose name is
the event's id, so that a repeated delivery replaces the file.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from yarl import URL

from runtime.outgoing.connector import Connector
from runtime.outgoing.providers import DeliveryRequest, Outcome, signed_headers
from runtime.outgoing.services.google_sheets import COLUMNS
from runtime.outgoing.services.requests import call
from runtime.outgoing.services.values import cell_of, csv_lines, escape_formula, value_at

CSV: Final = "text/csv; charset=utf-8"


async def send_line(connector: Connector, request: DeliveryRequest) -> Outcome:
    config = request.config
    row = [escape_formula(cell_of(value_at(request.body, path))) for path in config.get("columns") or COLUMNS]
    body = csv_lines([row]).encode()
    method, url = config.get("method", "POST"), str(config["url"])
    if method == "PUT":
        parts = URL(url, encoded=True)
        url = str(parts.with_path(f"{parts.raw_path.rstrip('/')}/{quote(request.id, safe='')}.csv", encoded=True))
        url += f"?{parts.raw_query_string}" if parts.raw_query_string else ""
    return await call(connector, request, url, body, signed_headers(request, CSV, body), method=method)
