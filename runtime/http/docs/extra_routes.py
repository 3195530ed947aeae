"""What a surface serves beside the table of operations, described: login, health, metrics."""

from __future__ import annotations

from typing import Any, NamedTuple

from runtime import messages as m
from runtime.http.admin import EXPORT, LIVE, LOG_OUT, ME
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
    merged: Schema = {"type": "boolean", "description": "Of a guest's token that was sent along."}
    components["Tokens"] = object_of(tokens | {"guest_merged": merged}, list(tokens))
    logged_in = {
        "token": "eyJhbGciOiJIUzI1NiIs...",
        "refresh_token": "rt_hq0V...",
        "expires_at": samples.LATER,
        "player": examples.answer(m.Player, AS_IT_IS, "number"),
    }
    asked = {"challenge_id": CHALLENGE, "expires_at": 1_767_225_900, "resend_at": 1_767_225_660}
    answers = {
        Answers.CHALLENGE: (ref("Challenge"), asked),
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
            "responses": {"200": document.answered(*answers[row.answers]), **document.refusals(every)},
        }
        document.add(Path(API + row.path, "POST"), "POST", described)


def add_me(document: Document) -> None:
    """The admin edge's own route: who asks (runtime/http/admin.py)."""
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
        "summary": "Who asks",
        "description": "Who the token is of, which operations its roles open, and where players are.",
        "security": document.tokens(),
        "responses": {"200": document.answered(ref("Me"), example), **document.refusals(every)},
    }
    document.add(Path(ME, "GET"), "GET", described)


def add_exports(document: Document) -> None:
    """The admin edge's own route: everything of a kind as CSV (runtime/http/feeds/exports.py)."""
    text: Schema = {"type": "string"}
    moment: Schema = {"type": "integer", "format": "int64", "minimum": 0, "description": "Unix seconds."}
    name = path_parameter("name")
    name["schema"] = {"type": "string", "enum": list(EXPORTS)}
    head = {"description": "A name for the file", "schema": {"type": "string"}}
    lines = {"schema": text, "example": "id,won_at,prize\r\nreward_01k0,2026-03-01T09:00:00Z,Mug\r\n"}
    every = (*refusals.ALWAYS, *refusals.TOKENS, *refusals.OF_EDGES, "TOKEN_MISSING", "ROLE_REQUIRED")
    described = {
        "operationId": "ExportRows",
        "tags": [document.tag("Exports")],
        "summary": "Export rows",
        "description": "Everything of a kind as CSV, the oldest first, sent as it is read. One that is cut off goes on "
        "with `cursor`, the first cell of its last whole line (the ledger's are `position`). A cell that a spreadsheet "
        "would take for a formula begins with an apostrophe; codes are `****`; contacts are masked but for who may "
        "fulfil rewards, and for a merchant's staff in the tenant's own campaigns, without names there. `from` and "
        "`to` are of when it happened, `to` excluded. A tenant has two under way at a time. That it was asked for is "
        "in the audit log.",
        "parameters": [
            name,
            query_parameter("campaign_id", text),
            query_parameter("from", moment),
            query_parameter("to", moment),
            query_parameter("cursor", text),
        ],
        "security": document.tokens(),
        "responses": {
            "200": {"description": "OK", "headers": {"Content-Disposition": head}, "content": {"text/csv": lines}},
            **document.refusals([*every, "UNKNOWN_CAMPAIGN", "UNKNOWN_ROUTE"]),
        },
    }
    document.add(Path(EXPORT, "GET"), "GET", described)


def add_live(document: Document) -> None:
    """The admin edge's own route: what happens now, as it happens (runtime/http/feeds/live.py)."""
    frame = 'event: live\ndata: {"at":1767225600,"plays":120,"wins":14, ...}\n\n'
    every = (*refusals.ALWAYS, *refusals.TOKENS, *refusals.OF_EDGES, "TOKEN_MISSING", "ROLE_REQUIRED")
    described = {
        "operationId": "WatchLive",
        "tags": [document.tag("Live")],
        "summary": "Watch what happens now",
        "description": "Server-sent events, every few seconds: plays and wins of the last minute, stock that runs out "
        "and when, what was won in a day, deliveries that wait or were given up, integrations that fail. It goes on "
        "until who watches leaves, or their token ends (`event: end`).",
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
    """The admin edge's own route: staff end their tokens (runtime/http/login/staff.py)."""
    components = document.schemas.components
    components["Done"] = object_of({}, [])
    components["LogOutBody"] = object_of({"everywhere": {"type": "boolean"}}, [], closed=True)
    content = {"application/json": {"schema": ref("LogOutBody"), "example": {"everywhere": True}}}
    every = (*refusals.ALWAYS, *refusals.WITH_BODY, *refusals.TOKENS, *refusals.OF_EDGES)
    described = {
        "operationId": "LogOutStaff",
        "tags": [document.tag("Staff")],
        "summary": "Log out",
        "description": "Ends the sign-in that the token is of; with `everywhere` every token of its subject until now.",
        "requestBody": {"required": False, "content": content},
        "security": document.tokens(),
        "responses": {
            "200": document.answered(ref("Done"), {}),
            **document.refusals([*every, "TOKEN_MISSING", "ROLE_REQUIRED"]),
        },
    }
    document.add(Path(LOG_OUT, "POST"), "POST", described)


class _SignInStep(NamedTuple):
    """A route of the sign-in: its operation, what it is sent, and the schema of what it answers."""

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
    begun = dict.fromkeys(("url", "state", "nonce", "verifier"), text)
    components["SignInBegun"] = object_of(begun, list(begun))
    signed_in = {"token": "eyJhbGciOiJIUzI1NiIs...", "expires_at": samples.LATER}
    home = "https://admin.example/dashboard"
    kept = {"verifier": "kX1r...", "nonce": "9fQz..."}
    steps: dict[str, _SignInStep] = {
        LINK: _SignInStep(
            name="SignInByLink",
            summary="Sign in by a link",
            description="The link is good for one use.",
            body={"link": "eyJ..."},
            answer="SignedIn",
            example=signed_in,
        ),
        OIDC_START: _SignInStep(
            name="StartSignIn",
            summary="Begin to sign in at the issuer",
            description="Where to send the browser, and what it keeps until it is back. There where OIDC_CLIENT_ID is "
            "set.",
            body={"redirect_uri": home},
            answer="SignInBegun",
            example={"url": "https://issuer.example/authorize?...", "state": "aB3d...", **kept},
        ),
        OIDC_FINISH: _SignInStep(
            name="FinishSignIn",
            summary="Sign in with the issuer's code",
            description="The code is what the issuer sent the browser back with. There where OIDC_CLIENT_ID is set.",
            body={"code": "SplxlOBeZQQYbYS6WxSbIA", "redirect_uri": home, **kept},
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
            "responses": {"200": document.answered(ref(step.answer), step.example), **document.refusals(every)},
        }
        document.add(Path(path, "POST"), "POST", described)
    methods = {
        "operationId": "GetSignInMethods",
        "tags": [document.tag("Staff")],
        "summary": "How staff sign in",
        "description": "Whether they may sign in at an issuer, beside by a link.",
        "security": [],
        "responses": {
            "200": document.answered(ref("SignInMethods"), {"oidc": True}),
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
    not_ready["503"]["headers"]["X-Failed-Check"] = {"description": "Which", "schema": {"type": "string"}}
    rows: dict[str, dict[str, Any]] = {
        "/healthz": {
            "operationId": "GetHealth",
            "summary": "Alive",
            "responses": {"200": document.answered(ref("Health"), {"status": "alive"})},
        },
        "/readyz": {
            "operationId": "GetReadiness",
            "summary": "Ready to serve: every store answers",
            "responses": {"200": document.answered(ref("Readiness"), ready), **not_ready},
        },
    }
    if document.surface == "core":
        text = {"text/plain": {"schema": {"type": "string"}, "example": "tombola_operations_total 1.0\n"}}
        rows["/metrics"] = {
            "operationId": "GetMetrics",
            "summary": "Metrics as Prometheus reads them",
            "responses": {"200": {"description": "OK", "content": text}},
        }
    for path, row in rows.items():
        row |= {"tags": [document.tag("Operational")], "security": []}
        document.add(Path(path, "GET"), "GET", row)


def _login_field(name: str) -> Schema:
    if name in ("contact_type", "type"):
        return {"type": "string", "enum": ["CONTACT_TYPE_PHONE", "CONTACT_TYPE_EMAIL"]}
    return {"type": "string", "minLength": 1, "maxLength": text_of(name).most}
