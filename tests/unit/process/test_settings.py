import base64
import ipaddress
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from runtime.groups import GROUPS
from runtime.settings import Key, Settings, SettingsError
from runtime.settings.documentation import markdown, misspelt, table

HEX = "ab" * 32
MARKER = "S3CR3T-marker-S3CR3T-marker-S3CR3T"
COMPLETE = {"DATABASE_URL": "postgresql://postgres:pw@127.0.0.1:5432/tombola", "REDIS_URL": "redis://127.0.0.1:6379/0"}
COMPLETE |= {"SERVER_KEYS": f"a:{HEX}", "CODE_KEYS": f"a:{HEX}", "JWT_SECRET": MARKER}
COMPLETE |= {"JWT_STAFF_SECRET": f"staff-{MARKER}", "LOGIN_SENDER": "plugins_own"}


def problems_of(environ: Mapping[str, str], *roles: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        Settings.from_env(environ, roles)
    return caught.value.problems


def test_empty_environment_and_variable_give_the_defaults() -> None:
    assert repr(Settings.from_env({})) == repr(Settings())
    assert Settings().database_pool_size == 10
    assert Settings.from_env({"RATE_IP_BURST": " "}).rate_ip_burst == 400


def test_complete_environment_serves_every_role() -> None:
    settings = Settings.from_env(COMPLETE, ["core", "rpc", "consumer", "admin", "worker:deliveries"])
    assert settings.server_keys == (Key("a", bytes.fromhex(HEX)),)


def test_problems_are_all_named_at_once() -> None:
    problems = problems_of({"CORE_PORT": "70000", "ROLE_MATRIX": "loose", "RATE_LIMITS": "maybe"}, "core")
    assert problems.keys() == {
        "CORE_PORT", "ROLE_MATRIX", "RATE_LIMITS", "DATABASE_URL", "REDIS_URL", "SERVER_KEYS", "CODE_KEYS"
    }  # fmt: skip
    assert problems["CORE_PORT"] == "must be a whole number from 0 to 65535"
    assert problems["ROLE_MATRIX"] == "must be one of any, strict"


WRONG: Final[dict[str, tuple[str, ...]]] = {
    "DATABASE_URL": (
        *("mysql://x/y", "postgresql://x:port/y", "postgresql://a,b/d"),
        "postgresql:///d?host=a,b&target_session_attrs=any",
    ),
    "ASSETS_URL": (
        *(
            *("https://brand", "s3://", "s3://Brand", "s3://brand/../other", "s3://brand?colour=red"),
            "s3://brand?region=EU",
        ),
        *("s3://brand?endpoint=ftp://s3.example", "s3://brand?endpoint=https://me:secret@s3.example"),
    ),
    "DATABASES": (
        *("eu", "eu=", "EU=postgresql://h/d", "eu=mysql://h/d", "eu=postgresql://h/d home=postgresql://h/e"),
        *("eu=postgresql://h/d eu=postgresql://h/e", "eu=postgresql://h/d us=postgresql://h/d"),
        "eu=postgresql://a,b/d?target_session_attrs=standby",
    ),
    "DATABASES_READ": ("eu=postgresql://h/d",),
    "DATABASE_READ_URL": ("postgresql://a,b/d?target_session_attrs=primary",),
    "DATABASE_POOL_SIZE": ("0",),
    "DATABASE_ACQUIRE_TIMEOUT_SECONDS": ("nan", "soon"),
    "SERVER_KEYS": ("a:short", f"a:{HEX},a:{HEX}", f"a b:{HEX}"),
    "JWT_SECRET": ("too short",),
    "SERVICE_TOKEN": (f"{MARKER},too short",),
    "TRUSTED_PROXIES": ("10.0.0.1/8",),
    "OUTBOUND_ALLOW_CIDRS": ("localhost",),
    "CORS_ORIGINS": ("shop.example",),
    "CORE_RPC_ADDRESSES": ("core",),
    "CORE_WORKERS": ("deliveries,emails",),
    "PLUGINS": ("my-plugin.py",),
    "BATCH_LIMIT": ("1e3", "9" * 5000),
    "LOG_SAMPLE": ("1.5",),
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_wrong_value_is_refused(variable: str, value: str) -> None:
    assert variable in problems_of({variable: value})


@pytest.mark.parametrize("encoded", [HEX, base64.b64encode(bytes.fromhex(HEX)).decode(), "q6ur" * 10 + "q6s"])
def test_key_is_read_from_hex_and_base64(encoded: str) -> None:
    found = Settings.from_env({"SERVER_KEYS": f"new:{encoded}, old:{'cd' * 32}"}).server_keys
    assert found == (Key("new", bytes.fromhex(HEX)), Key("old", bytes.fromhex("cd" * 32)))


@pytest.mark.parametrize(
    ("value", "groups"),
    [("on", tuple(GROUPS)), ("off", ()), ("deliveries, leaderboards", ("deliveries", "leaderboards"))],
)
def test_core_runs_all_no_or_some_worker_groups(value: str, groups: tuple[str, ...]) -> None:
    assert Settings.from_env({"CORE_WORKERS": value}).core_workers == groups


def test_databases_are_named_and_an_error_names_the_entry() -> None:
    found = Settings.from_env({"DATABASES": "eu=postgresql://h/d  us=postgres://a:b@h/e?c=d"}).databases
    assert found == (("eu", "postgresql://h/d"), ("us", "postgres://a:b@h/e?c=d"))
    with pytest.raises(SettingsError, match="DATABASES: us: must be a URL") as refused:
        Settings.from_env({"DATABASES": f"eu=postgresql://h/d us=mysql://a:{MARKER}@h/e"})
    assert MARKER not in str(refused.value)


def test_networks_and_the_callback_address_are_read() -> None:
    settings = Settings.from_env({"OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8,::1/128"})
    assert ipaddress.ip_address("127.0.0.1") in settings.outbound_allow_cidrs[0]
    assert settings.outbound_allow_cidrs[1] == ipaddress.ip_network("::1/128")
    assert Settings(admin_port=9).callback_url == "http://127.0.0.1:9"
    assert Settings(callback_base_url="https://a.example").callback_url == "https://a.example"


@pytest.mark.parametrize(
    ("environ", "roles", "missing"),
    [
        *(({}, ["migrate"], {"DATABASE_URL"}), (COMPLETE, ["consumer"], {"CORE_RPC_ADDRESSES"})),
        ({"DATABASE_URL": "postgresql://h/d"}, ["worker:deliveries"], {"REDIS_URL", "CODE_KEYS"}),
        ({"DATABASE_URL": "postgresql://h/d"}, ["worker:leaderboards"], {"REDIS_URL"}),
        ({"REDIS_URL": "redis://h", "CORE_RPC_ADDRESSES": "core:8083"}, ["admin"], {"JWT_STAFF_SECRET"}),
        (
            *({"REDIS_URL": "redis://h", "CORE_RPC_ADDRESSES": "core:8083", "JWT_SECRET": MARKER}, ["admin"]),
            {"JWT_STAFF_SECRET"},
        ),
        ({"JWKS_URL": "https://id.example/keys"}, [], {"JWKS_ISSUER", "JWKS_AUDIENCE", "JWKS_TENANTS"}),
        ({"LOGIN_SENDER": "smtp"}, [], {"SMTP_URL", "SMTP_FROM"}),
        ({"ASSETS_URL": "s3://brand"}, [], {"ASSETS_KEY_ID", "ASSETS_SECRET_KEY"}),
        ({"LOGIN_SENDER": "webhook"}, [], {"SENDER_WEBHOOK_URL", "SENDER_WEBHOOK_SECRET"}),
    ],
)
def test_setting_that_others_need_is_required(environ: dict[str, str], roles: list[str], missing: set[str]) -> None:
    assert problems_of(environ, *roles).keys() == missing


@pytest.mark.parametrize(
    ("environ", "refused"),
    [
        ({"JWT_SECRET": MARKER, "JWT_STAFF_SECRET": MARKER}, {"JWT_STAFF_SECRET"}),
        ({"JWT_SECRET": MARKER, "JWT_STAFF_SECRET": "t" * 32, "JWT_STAFF_OLD_SECRETS": MARKER}, {"JWT_STAFF_SECRET"}),
        ({"JWT_SECRET": MARKER, "JWT_STAFF_SECRET": "t" * 32}, set()),
        ({"JWT_AUDIENCE": "all", "JWT_STAFF_AUDIENCE": "all"}, {"JWT_STAFF_AUDIENCE"}),
        ({"TOKEN_SECONDS_MAX": "3600"}, {"REFRESH_TOKEN_SECONDS"}),
        ({"JWKS_ROLE_MAP": "boss=platform", "JWKS_TENANTS": "tenant_1"}, {"JWKS_ROLE_MAP"}),
        ({"JWKS_ROLE_MAP": "boss=platform", "JWKS_TENANTS": "*"}, set()),
        *(({"JWKS_ROLE_MAP": "boss=emperor"}, {"JWKS_ROLE_MAP"}), ({"JWKS_TENANTS": "a}b"}, {"JWKS_TENANTS"})),
        ({"JWT_OLD_SECRETS": f"{MARKER},short"}, {"JWT_OLD_SECRETS"}),
    ],
)
def test_setting_that_opens_too_much_is_refused(environ: dict[str, str], refused: set[str]) -> None:
    if refused:
        assert problems_of(environ).keys() == refused
    else:
        Settings.from_env(environ)


@pytest.mark.parametrize(
    ("environ", "role", "refused"),
    [
        *(({"LOGIN_SENDER": "log"}, "consumer", {"LOGIN_SENDER"}), ({"LOGIN_SENDER": "none"}, "consumer", set())),
        ({"LOGIN_SENDER": ""}, "consumer", {"LOGIN_SENDER"}),
        ({"HEADER_FALLBACK": "on"}, "consumer", {"HEADER_FALLBACK"}),
        *(({"HEADER_FALLBACK": "on"}, "admin", {"HEADER_FALLBACK"}), ({"LOGIN_SENDER": "log"}, "admin", set())),
        ({"LOGIN_SENDER": "log", "HEADER_FALLBACK": "on"}, "worker:deliveries", set()),
        *(({"CORE_HOST": "0.0.0.0"}, "core", {"SERVICE_TOKEN"}), ({"CORE_HOST": "::1"}, "core", set())),
        *(({"CORE_HOST": "0.0.0.0", "SERVICE_TOKEN": MARKER}, "core", set()), ({"CORE_HOST": "::"}, "consumer", set())),
    ],
)
def test_setting_for_development_is_refused_elsewhere(environ: dict[str, str], role: str, refused: set[str]) -> None:
    whole = {**COMPLETE, "CORE_RPC_ADDRESSES": "core:8083", **environ}
    if refused:
        assert problems_of(whole, role).keys() == refused
    else:
        Settings.from_env(whole, [role])
    Settings.from_env({**whole, "DEVELOPMENT": "on"}, [role])


def test_secrets_are_never_printed() -> None:
    secrets = {
        "DATABASE_URL": f"postgresql://u:{MARKER}@h/d",
        "REDIS_URL": f"redis://:{MARKER}@h",
        "SMTP_URL": f"smtp://u:{MARKER}@h",
        **dict.fromkeys(("JWT_SECRET", "JWT_OLD_SECRETS", "LOGIN_SECRET", "SENDER_WEBHOOK_SECRET"), MARKER),
        "JWT_STAFF_SECRET": f"staff-{MARKER}",
        "JWT_STAFF_OLD_SECRETS": f"older-{MARKER}",
        "SERVER_KEYS": f"a:{HEX}",
    }
    settings = Settings.from_env(secrets)
    assert MARKER not in repr(settings)
    assert "\\xab" not in repr(settings) + repr(settings.server_keys)


@pytest.mark.parametrize("value", [MARKER, f"a:{MARKER}", f"{MARKER}:{HEX}:x"])
def test_refused_key_or_secret_is_not_shown(value: str) -> None:
    assert MARKER[:31] not in str(problems_of({"SERVER_KEYS": value, "JWT_OLD_SECRETS": MARKER[:31]}))


def test_almost_known_name_is_pointed_out() -> None:
    assert misspelt(["RATE_PLAYR_BURST", "PATH", "REDIS_URL"]) == {"RATE_PLAYR_BURST": "RATE_PLAYER_BURST"}


def test_secret_signs_both_kinds_of_token_only_in_development() -> None:
    alone = Settings.from_env({"JWT_SECRET": MARKER})
    assert (alone.jwt_secrets, alone.jwt_staff_secrets) == ((MARKER,), ())
    assert Settings.from_env({"JWT_SECRET": MARKER, "DEVELOPMENT": "on"}).jwt_staff_secrets == (MARKER,)


def test_table_describes_every_setting() -> None:
    assert all(row.kind and row.meaning for row in table())
    assert markdown().count("\n") == len(table()) + 2


def test_command_line_names_every_wrong_setting() -> None:
    wrong = {"CORE_PORT": "x"}
    done = subprocess.run([sys.executable, "-m", "runtime", "all"], env=wrong, capture_output=True, text=True)
    assert done.returncode == 2
    assert "CORE_PORT: must be a whole number" in done.stderr
    assert "DATABASE_URL: must be set" in done.stderr
