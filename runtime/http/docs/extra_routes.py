"""Descriptions of the routes that are not in the operation table: login, exports, live, evidence files, health,
metrics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from runtime import messages as m
from runtime.http.admin import EXPORT, LIVE, LOG_OUT, ME
from runtime.http.admin import LOG as ADMIN_LOG
from runtime.http.consumer import DRAW_FILE, LOG
from runtime.http.docs import examples, refusals
from runtime.http.docs.document import (
    Document,
    Path,
    object_of,
    path_parameter,
    query_parameter,
    summary_of,
    tenant_parameters,
)
from runtime.http.docs.schemas import Schema, ref
from runtime.http.feeds import parquet
from runtime.http.feeds.downloads import JSON_LINES
from runtime.http.feeds.exports import CONTENT_TYPES
from runtime.http.feeds.log_tiles import CHECKPOINT, STAMP
from runtime.http.login.oidc import TEXT_CHARACTERS_MAX
from runtime.http.login.rows import CHALLENGE, ROWS, Answers, text_of
from runtime.http.login.sign_in import LINK, METHODS, OIDC_FINISH, OIDC_START
from runtime.operations import API, samples
from runtime.operations.reporting.exports import EXPORTS
from runtime.wire.shape import AS_IT_IS


def add_login(document: Document) -> None:
    """The consumer edge's own routes (runtime.http.login)."""
    moment: Schema = {"type": "integer", "format": "int64", "description": "Unix seconds."}
    text: Schema = {"type": "string"}
    components = document.schemas.components
    challenge = {"challenge_id": text, "expires_at": moment, "resend_at": moment}
    components["Challenge"] = object_of(challenge, list(challenge))
    components["Done"] = object_of({}, [])
    tokens = {"token": text, "refresh_token": text, "expires_at": moment, "player": document.schemas.answer(m.Player)}
    merged: Schema = {
        "type": "boolean",
        "description": "Whether the guest of a guest token sent with the request was merged into the player.",
    }
    components["Tokens"] = object_of(tokens | {"guest_merged": merged}, list(tokens))
    logged_in = {
        "token": "eyJhbGciOiJIUzI1NiIs...",
        "refresh_token": "rt_hq0V...",
        "expires_at": samples.LATER,
        "player": examples.answer(m.Player, AS_IT_IS, "number"),
    }
    challenge_example = {"challenge_id": CHALLENGE, "expires_at": 1_767_225_900, "resend_at": 1_767_225_660}
    answers = {
        Answers.CHALLENGE: (ref("Challenge"), challenge_example),
        Answers.TOKENS: (ref("Tokens"), logged_in),
        Answers.DONE: (ref("Done"), {}),
        Answers.CONTACT: (document.schemas.answer(m.Contact), examples.answer(m.Contact, AS_IT_IS, "number")),
    }
    for row in ROWS:
        body = {field: _login_field(field) for field in row.fields}
        others: dict[str, Schema] = {name: {"type": "boolean"} for name in row.flags}
        others |= {name: {"type": "string", "maxLength": text_of(name).most} for name in row.optional}
        components[f"{row.name}Body"] = object_of(body | others, list(body), closed=True)
        example = dict(row.example) | dict.fromkeys(row.flags, True)
        content = {"application/json": {"schema": ref(f"{row.name}Body"), "example": example}}
        every = (*refusals.ALWAYS, *refusals.WITH_BODY, *refusals.TOKENS, *refusals.OF_EDGES, *row.refusals)
        described = {
            "operationId": row.name,
            "tags": [document.tag("Login")],
            "summary": summary_of(row.name),
            "description": row.about,
            "parameters": tenant_parameters(),
            "requestBody": {"required": bool(body), "content": content},
            "security": [*([] if row.players_only else [{}]), *document.tokens()],
            "responses": {"200": document.response(*answers[row.answers]), **document.refusals(every)},
        }
        document.add(Path(API + row.path, "POST"), "POST", described)


def add_me(document: Document) -> None:
    """The admin edge's own route: the caller's identity (runtime/http/admin.py)."""
    text: Schema = {"type": "string"}
    texts: Schema = {"type": "array", "items": text}
    moment: Schema = {"type": "integer", "format": "int64", "description": "Unix seconds."}
    fields = {"subject": text, "tenant_id": text, "merchant_id": text, "roles": texts, "expires_at": moment}
    fields |= {"tenant_name": text, "operations": texts, "consumer_url": text, "default_tenant": text}
    document.schemas.components["Me"] = object_of(fields, [*fields])
    example = {
        "subject": "ann",
        "tenant_id": "tenant_01k0",
        "merchant_id": "",
        "roles": ["designer"],
        "expires_at": samples.LATER,
        "operations": ["CreateGame", "GetGame"],
        "tenant_name": "Fair & Co.",
        "consumer_url": "https://play.example",
        "default_tenant": "tenant_01k0",
    }
    every = (*refusals.ALWAYS, *refusals.TOKENS, *refusals.OF_EDGES, "TOKEN_MISSING", "ROLE_REQUIRED")
    described = {
        "operationId": "GetMe",
        "tags": [document.tag("Staff")],
        "summary": "Get the caller's identity",
        "description": "The token's subject and roles, the operations that they permit, and the consumer edge's URL.",
        "security": document.tokens(),
        "responses": {"200": document.response(ref("Me"), example), **document.refusals(every)},
    }
    document.add(Path(ME, "GET"), "GET", described)


def add_exports(document: Document) -> None:
    """The admin edge's own route: exports (runtime/http/feeds/exports.py)."""
    text: Schema = {"type": "string"}
    moment: Schema = {"type": "integer", "format": "int64", "minimum": 0, "description": "Unix seconds."}
    name = path_parameter("name")
    name["schema"] = {"type": "string", "enum": list(EXPORTS)}
    head = {"description": "The suggested file name", "schema": {"type": "string"}}
    binary = {"schema": {"type": "string", "format": "binary"}, "example": "the bytes of the file"}
    lines = {"schema": text, "example": "id,won_at,prize\r\nreward_01k0,2026-03-01T09:00:00Z,Mug\r\n"}
    every = (*refusals.ALWAYS, *refusals.TOKENS, *refusals.OF_EDGES, "TOKEN_MISSING", "ROLE_REQUIRED")
    described = {
        "operationId": "ExportRows",
        "tags": [document.tag("Exports")],
        "summary": "Export rows",
        "description": "Streams all rows of one kind, oldest first, as CSV, JSON lines or Parquet, by `format`. In "
        "Parquet integers, times and dates have their types; objects and lists are texts of JSON. `consent` selects "
        "the participants and winners whose consent of that id is in force. To resume an interrupted export, send as "
        "`cursor` the first cell of the last complete line (for the ledger, its `position`). A change of a form "
        "changes the columns of CSV and ends a running export: start again without `cursor`. The ledger entries of a "
        "guest move to the player that it becomes. If that happens during an export, they may be in it twice, with "
        "the same `id`, or not at all: export the period again and merge by `id`. In CSV an apostrophe is put before "
        "what a spreadsheet would read as a formula: `=`, `+`, `-` or `@` at the start of a text, or in it after a "
        "semicolon, tab or line break. Remove one apostrophe there to read the text. Codes read `****`. Contacts are "
        "masked, and texts that players entered are left out, unless the token's role may fulfil rewards. In the "
        "tenant's own campaigns, merchant staff see contacts masked and no names. `from` (inclusive) and `to` "
        "(exclusive) filter by the time of the event, or the hour of views. A tenant may run two exports at a time. "
        "Each export is recorded in the audit log.",
        "parameters": [
            name,
            query_parameter("campaign_id", text),
            query_parameter("from", moment),
            query_parameter("to", moment),
            query_parameter("cursor", text),
            query_parameter("consent", text),
            query_parameter("format", {"type": "string", "enum": list(CONTENT_TYPES), "default": "csv"}),
        ],
        "security": document.tokens(),
        "responses": {
            "200": {
                "description": "OK",
                "headers": {"Content-Disposition": head},
                "content": {"text/csv": lines, parquet.CONTENT_TYPE: binary},
            },
            **document.refusals([*every, "UNKNOWN_CAMPAIGN"]),
        },
    }
    document.add(Path(EXPORT, "GET"), "GET", described)


def add_draw_file(document: Document) -> None:
    """The consumer edge's own route: evidence files of draws (runtime/http/feeds/draw_file.py)."""
    head = {"description": "The suggested file name", "schema": {"type": "string"}}
    line = '{"format":"tombola-draw-1","id":"draw_01k0","tickets_root":"9f86d0...", ...}\n'
    lines = {"schema": {"type": "string"}, "example": line}
    every = (
        *refusals.ALWAYS,
        *refusals.TOKENS,
        *refusals.OF_EDGES,
        "RATE_LIMITED",
        "ROLE_REQUIRED",
        "UNKNOWN_DRAW",
        "UNKNOWN_TENANT",
    )
    described = {
        "operationId": "DownloadDrawFile",
        "tags": [document.tag("Draws")],
        "summary": "Download the evidence of a draw",
        "description": "Streams the frozen tickets under pseudonyms, and once they are drawn the random value and the "
        "winners, as JSON lines. `tombola draws verify FILE` checks it without the service.",
        "parameters": [path_parameter("id"), *tenant_parameters()],
        "security": [{}, *document.tokens()],
        "responses": {
            "200": {
                "description": "OK",
                "headers": {"Content-Disposition": head},
                "content": {JSON_LINES: lines},
            },
            **document.refusals(every),
        },
    }
    document.add(Path(DRAW_FILE, "GET"), "GET", described)


def add_log(document: Document) -> None:
    """The edges' own routes: the log (runtime/http/feeds/log_tiles.py)."""
    admin = document.surface == "admin"
    base = ADMIN_LOG if admin else LOG
    note = "promo.example.com/log/tenant_01k0\n1024\nCsUYapGGPo4dkMgIAUqom/Xajj7...\n\n\u2014 promo... Az3g...\n"
    raw: dict[str, Any] = {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": "..."}
    }
    text: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}, "example": note}}
    texts = {name: {"type": "string"} for name in ("checkpoint", "stamp")}
    stamped: dict[str, Any] = {
        "application/json": {
            "schema": {"type": "object", "properties": texts, "required": list(texts), "additionalProperties": False},
            "example": {"checkpoint": note, "stamp": "MIIE7TADAgEA..."},
        }
    }
    every: tuple[str, ...] = (*refusals.ALWAYS, *refusals.OF_EDGES)
    every += (*refusals.TOKENS, "TOKEN_MISSING", "ROLE_REQUIRED", "FORBIDDEN") if admin else ()
    described = {
        CHECKPOINT: (
            *("GetLogCheckpoint", "Get the log's signed checkpoint", text, "UNKNOWN_LOG"),
            "The newest checkpoint of the tenant's Merkle log, as a signed note (C2SP tlog-checkpoint).",
        ),
        STAMP: (
            *("GetLogStamp", "Get the log's stamped checkpoint", stamped, "UNKNOWN_STAMP"),
            "The newest checkpoint that a time-stamping authority has stamped, and its response (RFC 3161) in base64.",
        ),
        "/tile/{path}": (
            *("GetLogTile", "Get a tile of the log", raw, "UNKNOWN_TILE"),
            "`path` is `L/N` or, for a partial tile, `L/N.p/W` (C2SP tlog-tiles)."
            + (" `entries/N` is a bundle of entries, made of the rows as they are now." if admin else ""),
        ),
    }
    for below, (name, summary, content, unknown, description) in described.items():
        parameters = [path_parameter(one) for one in ("tenant", "path") if f"{{{one}}}" in base + below]
        if admin and below == CHECKPOINT:
            fresh = "Whether the rows of now are appended first"
            parameters.append(query_parameter("fresh", {"type": "boolean"}, description=fresh))
        operation = {
            "operationId": name,
            "tags": [document.tag("Log")],
            "summary": summary,
            "description": description,
            "parameters": parameters,
            "security": document.tokens() if admin else [],
            "responses": {"200": {"description": "OK", "content": content}, **document.refusals([*every, unknown])},
        }
        document.add(Path(base + below, "GET"), "GET", operation)


def add_live(document: Document) -> None:
    """The admin edge's own route: live figures (runtime/http/feeds/live.py)."""
    frame = 'event: live\ndata: {"at":1767225600,"plays":120,"wins":14, ...}\n\n'
    every = (*refusals.ALWAYS, *refusals.TOKENS, *refusals.OF_EDGES, "TOKEN_MISSING", "ROLE_REQUIRED")
    described = {
        "operationId": "WatchLive",
        "tags": [document.tag("Live")],
        "summary": "Stream live figures",
        "description": "Server-sent events, every few seconds: plays and wins of the last minute, prizes that run low "
        "and when they sell out, prizes won in the last day, pending and failed deliveries, failing integrations. The "
        "stream ends when the client disconnects or the token expires (`event: end`).",
        "security": document.tokens(),
        "responses": {
            "200": {
                "description": "OK",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "example": frame}},
            },
            **document.refusals(every),
        },
    }
    document.add(Path(LIVE, "GET"), "GET", described)


def add_log_out(document: Document) -> None:
    """The admin edge's own route: staff log out (runtime/http/login/staff.py)."""
    components = document.schemas.components
    components["Done"] = object_of({}, [])
    components["LogOutBody"] = object_of({"everywhere": {"type": "boolean"}}, [], closed=True)
    content = {"application/json": {"schema": ref("LogOutBody"), "example": {"everywhere": True}}}
    every = (*refusals.ALWAYS, *refusals.WITH_BODY, *refusals.TOKENS, *refusals.OF_EDGES)
    described = {
        "operationId": "LogOutStaff",
        "tags": [document.tag("Staff")],
        "summary": "Log out",
        "description": "Revokes the token's sign-in. With `everywhere`, revokes every token issued to its subject "
        "until now.",
        "requestBody": {"required": False, "content": content},
        "security": document.tokens(),
        "responses": {
            "200": document.response(ref("Done"), {}),
            **document.refusals([*every, "TOKEN_MISSING", "ROLE_REQUIRED"]),
        },
    }
    document.add(Path(LOG_OUT, "POST"), "POST", described)


class _SignInStep(NamedTuple):
    """A route of the sign-in: its operation, an example body, and the schema of its response."""

    name: str
    summary: str
    description: str
    body: dict[str, str]
    answer: str
    example: dict[str, Any]


def add_sign_in(document: Document) -> None:
    """The admin edge's own routes by which staff sign in (runtime/http/login/sign_in.py)."""
    text: Schema = {"type": "string"}
    some: Schema = {"type": "string", "minLength": 1, "maxLength": TEXT_CHARACTERS_MAX}
    moment: Schema = {"type": "integer", "format": "int64", "description": "Unix seconds."}
    components = document.schemas.components
    components["SignInMethods"] = object_of({"oidc": {"type": "boolean"}}, ["oidc"])
    components["SignedIn"] = object_of({"token": text, "expires_at": moment}, ["token", "expires_at"])
    started = dict.fromkeys(("url", "state", "nonce", "verifier"), text)
    components["SignInBegun"] = object_of(started, list(started))
    signed_in = {"token": "eyJhbGciOiJIUzI1NiIs...", "expires_at": samples.LATER}
    home = "https://admin.example/dashboard"
    stored = {"verifier": "kX1r...", "nonce": "9fQz..."}
    steps: dict[str, _SignInStep] = {
        LINK: _SignInStep(
            name="SignInByLink",
            summary="Sign in with a link",
            description="A link works once.",
            body={"link": "eyJ..."},
            answer="SignedIn",
            example=signed_in,
        ),
        OIDC_START: _SignInStep(
            name="StartSignIn",
            summary="Start a sign-in at the OIDC issuer",
            description="Returns the URL to send the browser to, and the values that the browser stores until the "
            "issuer redirects it back. Available if OIDC_CLIENT_ID is set.",
            body={"redirect_uri": home},
            answer="SignInBegun",
            example={"url": "https://issuer.example/authorize?...", "state": "aB3d...", **stored},
        ),
        OIDC_FINISH: _SignInStep(
            name="FinishSignIn",
            summary="Sign in with the issuer's code",
            description="Exchanges the code from the issuer's redirect for a token. Available if OIDC_CLIENT_ID is "
            "set.",
            body={"code": "SplxlOBeZQQYbYS6WxSbIA", "redirect_uri": home, **stored},
            answer="SignedIn",
            example=signed_in,
        ),
    }
    for path, step in steps.items():
        components[f"{step.name}Body"] = object_of(dict.fromkeys(step.body, some), list(step.body), closed=True)
        content = {"application/json": {"schema": ref(f"{step.name}Body"), "example": step.body}}
        every = (*refusals.ALWAYS, *refusals.WITH_BODY, *refusals.TOKENS, *refusals.OF_EDGES, "ROLE_REQUIRED")
        described = {
            "operationId": step.name,
            "tags": [document.tag("Staff")],
            "summary": step.summary,
            "description": step.description,
            "requestBody": {"required": True, "content": content},
            "security": [],
            "responses": {"200": document.response(ref(step.answer), step.example), **document.refusals(every)},
        }
        document.add(Path(path, "POST"), "POST", described)
    methods = {
        "operationId": "GetSignInMethods",
        "tags": [document.tag("Staff")],
        "summary": "Get the sign-in methods",
        "description": "Whether staff may sign in at an OIDC issuer as well as with a link.",
        "security": [],
        "responses": {
            "200": document.response(ref("SignInMethods"), {"oidc": True}),
            **document.refusals([*refusals.ALWAYS, *refusals.OF_EDGES]),
        },
    }
    document.add(Path(METHODS, "GET"), "GET", methods)


def add_health(document: Document) -> None:
    """/healthz and /readyz; Core's /metrics."""
    components = document.schemas.components
    components["Health"] = object_of({"status": {"type": "string"}}, ["status"])
    checks: Schema = {"type": "array", "items": {"type": "string"}}
    components["Readiness"] = object_of({"status": {"type": "string"}, "checks": checks}, ["status", "checks"])
    ready = {"status": "ready", "checks": ["database", "redis"]}
    not_ready = document.refusals(["NOT_READY"])
    failed: Schema = {"description": "The store that does not respond", "schema": {"type": "string"}}
    not_ready["503"]["headers"]["X-Failed-Check"] = failed
    rows: dict[str, dict[str, Any]] = {
        "/healthz": {
            "operationId": "GetHealth",
            "summary": "Alive",
            "responses": {"200": document.response(ref("Health"), {"status": "alive"})},
        },
        "/readyz": {
            "operationId": "GetReadiness",
            "summary": "Ready to serve: every store responds",
            "responses": {"200": document.response(ref("Readiness"), ready), **not_ready},
        },
    }
    if document.surface == "core":
        text = {"text/plain": {"schema": {"type": "string"}, "example": "tombola_operations_total 1.0\n"}}
        rows["/metrics"] = {
            "operationId": "GetMetrics",
            "summary": "Metrics in the Prometheus format",
            "responses": {"200": {"description": "OK", "content": text}},
        }
    for path, row in rows.items():
        row |= {"tags": [document.tag("Operational")], "security": []}
        document.add(Path(path, "GET"), "GET", row)


def _login_field(name: str) -> Schema:
    if name in ("contact_type", "type"):
        return {"type": "string", "enum": ["CONTACT_TYPE_PHONE", "CONTACT_TYPE_EMAIL"]}
    return {"type": "string", "minLength": 1, "maxLength": text_of(name).most}
