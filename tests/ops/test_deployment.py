import re
import socket
import stat
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from ops.servers.base import free_port, wait_for
from ops.servers.valkey import Valkey
from runtime.groups import GROUPS
from runtime.settings import Settings
from tests.support import kubernetes
from tests.support.stack import Stack
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "ops/compose.yaml").read_text())
EXAMPLE = (ROOT / "ops/env.example").read_text()

SENDERS = ("SMTP_URL", "SENDER_WEBHOOK_SECRET")

NEEDS = {
    "migrate": {"DATABASE_URL"},
    "core": {"DATABASE_URL", "REDIS_URL", "SERVER_KEYS", "CODE_KEYS", "SERVICE_TOKEN", "ASSETS_SECRET_KEY", *SENDERS},
    "consumer": {"REDIS_URL", "JWT_SECRET", "LOGIN_SECRET", "SERVICE_TOKEN", *SENDERS},
    "admin": {"REDIS_URL", "JWT_STAFF_SECRET", "SERVICE_TOKEN"},
    "deliveries": {"DATABASE_URL", "REDIS_URL", "CODE_KEYS"},
    "integrations": {"DATABASE_URL", "REDIS_URL", "CODE_KEYS", *SENDERS},
    "leaderboards": {"DATABASE_URL", "REDIS_URL"},
    "auditor": {"DATABASE_URL", "REDIS_URL"},
}

PODS = sorted(NEEDS)
"""What Kubernetes runs: each in its own pods."""

TOGETHER = ("core", "consumer", "admin")
"""What `all` is, in Compose."""

NEEDS["all"] = set().union(*(NEEDS[role] for role in TOGETHER))

VALUES = {"SERVER_KEYS": "1:" + "ab" * 32, "CODE_KEYS": "1:" + "cd" * 32, "JWT_SECRET": "ef" * 32}
VALUES |= {"LOGIN_SECRET": "23" * 32, "JWT_STAFF_SECRET": "fe" * 32, "SERVICE_TOKEN": "01" * 32}
VALUES |= {"ASSETS_SECRET_KEY": "secret", "SMTP_URL": "smtp://mail.example", "SMTP_FROM": "games@shop.example"}
VALUES |= {"LOGIN_SENDER": "smtp", "CALLBACK_BASE_URL": "https://admin.example"}
VALUES |= {"CONSUMER_BASE_URL": "https://play.example", "CORS_ORIGINS": "https://shop.example"}
VALUES |= {"TRUSTED_PROXIES": "10.0.0.0/8", "DATABASE_URL": "postgresql://tombola:pw@db.example/tombola"}
VALUES |= {"REDIS_URL": "redis://:pw@valkey.example/0"}

SECRET = {field.name.upper() for field in fields(Settings) if field.metadata["secret"]}
HARDENED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return kubernetes.of_kind("production", kind)


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    """A Kubernetes container's variables, with example values where a Secret says them."""
    found: dict[str, str] = {}
    for source in container["envFrom"]:
        if "configMapRef" in source:
            found |= of_kind("ConfigMap")[kubernetes.role_of(source["configMapRef"]["name"])]["data"]
        else:
            variable = kubernetes.documented_secrets()[source["secretRef"]["name"]]
            found[variable] = VALUES[variable]
    return found


def filled_in(service: dict[str, Any]) -> dict[str, str]:
    """A compose service's variables, with example values for those of ops/.env."""

    def value(match: re.Match[str]) -> str:
        return VALUES.get(match[1], "pw" if match[2] == "?" else "")

    return {name: re.sub(r"\$\{(\w+):([-?])[^}]*\}", value, text) for name, text in service["environment"].items()}


def processes() -> list[Any]:
    found = [
        pytest.param(name, filled_in(service), id=f"compose-{name}")
        for name, service in COMPOSE["services"].items()
        if name in NEEDS
    ]
    for role, pod in kubernetes.pods("production").items():
        (container,) = pod["containers"]
        found.append(pytest.param(role, environment_of(container), id=f"kubernetes-{role}"))
    return found


@pytest.mark.parametrize(("role", "environ"), processes())
class TestProcesses:
    def test_process_starts_with_its_settings(self, role: str, environ: dict[str, str]) -> None:
        assert set(environ) <= {field.name.upper() for field in fields(Settings)}
        roles = {
            "core": ["core", "rpc"],
            "all": ["rpc", *TOGETHER],
            **{name: [f"worker:{name}"] for name in GROUPS},
        }.get(role, [role])
        Settings.from_env(environ, roles)

    def test_process_has_only_the_secrets_that_it_needs(self, role: str, environ: dict[str, str]) -> None:
        assert SECRET & {name for name, value in environ.items() if value} <= NEEDS[role]

    def test_process_has_strict_production_settings(self, role: str, environ: dict[str, str]) -> None:
        settings = Settings.from_env(environ)
        assert not settings.header_fallback
        if role in ("consumer", "admin", "all"):
            assert settings.role_matrix == "strict"
        if role in ("core", "consumer", "admin"):
            assert settings.service_token
        if role == "consumer":
            assert settings.login_sender != "log" and settings.cors_origins
        if role == "deliveries":
            assert settings.callback_base_url
        if role == "admin":
            assert settings.consumer_base_url


def test_settings_for_secret_rotation_and_foreign_issuers_reach_the_edges() -> None:
    another = {field.name.upper() for field in fields(Settings) if field.name.startswith("jwks_")}
    secrets = {"consumer": {"JWT_SECRET", "JWT_OLD_SECRETS"}, "admin": {"JWT_STAFF_SECRET", "JWT_STAFF_OLD_SECRETS"}}
    secrets["all"] = secrets["consumer"] | secrets["admin"]
    for role, own in secrets.items():
        assert another | own <= set(COMPOSE["services"][role]["environment"]), role
    assert another <= set(of_kind("ConfigMap")["edge"]["data"])


@pytest.mark.parametrize("role", PODS)
def test_pod_has_no_rights_that_it_does_not_use(role: str) -> None:
    pod = kubernetes.pods("production")[role]
    assert pod["automountServiceAccountToken"] is False
    found = pod["securityContext"]
    assert found == {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = pod["containers"]
    assert container["securityContext"] == HARDENED
    assert "memory" in container["resources"]["limits"]
    probed = {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")}
    assert probed == (set() if role == "migrate" else {"metrics"})


@pytest.mark.parametrize("role", sorted(NEEDS))
def test_container_has_no_rights_that_it_does_not_use(role: str) -> None:
    service = COMPOSE["services"][role]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


def rules(role: str, direction: str) -> list[dict[str, Any]]:
    found = []
    for policy in of_kind("NetworkPolicy").values():
        selector = policy["spec"]["podSelector"]
        labels = {"app": "tombola", "role": role}
        if any(labels.get(name) != value for name, value in selector["matchLabels"].items()):
            continue
        if any(labels[one["key"]] not in one["values"] for one in selector.get("matchExpressions", ())):
            continue
        found += policy["spec"].get(direction, [])
    return found


def senders(rule: dict[str, Any]) -> set[str]:
    """The namespaces and roles that a rule lets in; "anyone" for a sender that names neither."""
    found: set[str] = set()
    for one in rule.get("from", [{}]):
        namespace = one.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name")
        roles = [by["values"] for by in one.get("podSelector", {}).get("matchExpressions", ()) if by["key"] == "role"]
        found |= {namespace} if namespace else set(*roles) or {"anyone"}
    return found


@pytest.mark.parametrize("role", [role for role in PODS if role != "migrate"])
class TestNetwork:
    def test_ports_are_open_only_to_their_intended_senders(self, role: str) -> None:
        into = rules(role, "ingress")
        open_to = {(port["port"], who) for rule in into for port in rule["ports"] for who in senders(rule)}
        own = {"core": {(8083, "admin"), (8083, "consumer")}, "consumer": {(8081, "ingress-nginx")}}
        own["admin"] = {(8082, "ingress-nginx")}
        assert open_to == {(9090, "monitoring")} | own.get(role, set())

    def test_egress_is_limited_to_what_the_role_needs(self, role: str) -> None:
        going = rules(role, "egress")
        ports = {port["port"] for rule in going for port in rule["ports"]}
        assert (5432 in ports) == ("DATABASE_URL" in NEEDS[role])
        assert (8083 in ports) == (role in ("consumer", "admin"))
        world = [rule for rule in going if "ipBlock" in str(rule)]
        assert bool(world) == (role not in ("leaderboards", "auditor"))
        for rule in world:
            (four, six) = [to["ipBlock"] for to in rule["to"]]
            assert (four["cidr"], six["cidr"]) == ("0.0.0.0/0", "::/0")
            private = {"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"}
            assert private | {"127.0.0.0/8", "169.254.0.0/16"} <= set(four["except"])
            assert {"fc00::/7", "fe80::/10"} <= set(six["except"])


def test_compose_s_valkey_wants_its_password_and_is_bounded(tmp_path: Path, valkey_server: Valkey) -> None:
    port = free_port()
    (tmp_path / "valkey-server").write_text(
        f'#!/bin/sh\nexec "{valkey_server._command()[0]}" "$@" --port {port} --bind 127.0.0.1 --dir "{tmp_path}"\n'
    )
    (tmp_path / "valkey-server").chmod(0o755)
    argv = [it.replace("$$", "$").replace("/tmp/", f"{tmp_path}/") for it in COMPOSE["services"]["valkey"]["command"]]
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "VALKEY_PASSWORD": "pw-of-compose"}
    with subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL) as server:
        try:

            def reply(*lines: str) -> str:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                    connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
                    return connection.makefile().readline()

            def answers() -> bool:
                try:
                    return bool(reply("PING"))
                except OSError:
                    return False

            wait_for(answers, HANG_SECONDS)
            assert reply("PING").startswith("-NOAUTH")
            assert reply("AUTH pw-of-compose") == "+OK\n"
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(b"AUTH pw-of-compose\r\nCONFIG GET maxmemory*\r\nQUIT\r\n")
                bounds = connection.makefile().read()
            # Else it grows until the machine has no more; or drops a stream, or nothing, where it is full.
            assert f"maxmemory\n$9\n{512 * 2**20}\n" in bounds and "maxmemory-policy\n$12\nvolatile-lru\n" in bounds
            assert "pw-of-compose" not in " ".join(psutil.Process(server.pid).cmdline())
            assert stat.S_IMODE((tmp_path / "valkey.conf").stat().st_mode) == 0o600
        finally:
            server.terminate()


async def test_first_tenant_is_created_as_the_page_says(stack: Stack) -> None:
    page = (ROOT / "docs/how-to/deploy.md").read_text()
    minted = re.search(r"admin token mint --tenant (\w+) --role (\w+)", page)
    token = stack.token("machine", (minted[2],), tenant_id=minted[1])
    headers = {"Authorization": f"Bearer {token}"}
    answer = await stack.admin("POST", "/admin/tenants", {"name": "Ours"}, roles=(), headers=headers)
    assert answer.data["id"].startswith("tenant_")


def test_x_forwarded_for_is_trusted_from_no_network_by_default() -> None:
    assert re.findall(r"^TRUSTED_PROXIES=(.*)$", EXAMPLE, re.MULTILINE) == [""]
    for role in ("consumer", "admin", "all"):
        assert COMPOSE["services"][role]["environment"]["TRUSTED_PROXIES"] == "${TRUSTED_PROXIES:-}"
    assert of_kind("ConfigMap")["edge"]["data"]["TRUSTED_PROXIES"] == ""


def test_migrations_alone_are_done_by_the_role_that_owns_the_tables() -> None:
    services = COMPOSE["services"]
    urls = {role: services[role]["environment"]["DATABASE_URL"] for role in NEEDS if "DATABASE_URL" in NEEDS[role]}
    users = {role: url.partition("://")[2].partition(":")[0] for role, url in urls.items()}
    assert {role for role, user in users.items() if user == "tombola_owner"} == {"migrate"}
    assert set(users.values()) == {"tombola", "tombola_owner"}
    assert [name for name, one in services.items() if "POSTGRES_PASSWORD" in one.get("environment", {})] == ["postgres"]
    for role, pod in kubernetes.pods("production").items():
        (container,) = pod["containers"]
        held = {one["secretRef"]["name"] for one in container["envFrom"] if "secretRef" in one}
        wants = "DATABASE_URL" in NEEDS[role]
        assert ("tombola-owner" in held, "tombola-database" in held) == (
            *(role == "migrate", wants and role != "migrate"),
        ), role


def test_edges_alone_are_reachable_from_outside_compose() -> None:
    services = COMPOSE["services"]
    consumer, admin = ["127.0.0.1:8081:8081"], ["127.0.0.1:8082:8082"]
    published = {"consumer": consumer, "admin": admin, "all": consumer + admin}
    assert {name: one["ports"] for name, one in services.items() if "ports" in one} == published


def test_core_and_edges_run_either_together_or_apart() -> None:
    profiles = {name: one["profiles"] for name, one in COMPOSE["services"].items() if "profiles" in one}
    assert profiles == {"all": ["together"], **{role: ["apart"] for role in TOGETHER}}
    assert re.findall(r"^COMPOSE_PROFILES=(.*)$", EXAMPLE, re.MULTILINE) == ["together"]
    assert COMPOSE["services"]["all"]["environment"]["CORE_HOST"] == "127.0.0.1"


def test_networks_of_compose_are_internal() -> None:
    on = {name: set(one["networks"]) for name, one in COMPOSE["services"].items()}
    stored = {"postgres", *(role for role, needs in NEEDS.items() if "DATABASE_URL" in needs)}
    assert {name for name, networks in on.items() if "database" in networks} == stored
    assert all(COMPOSE["networks"][name]["internal"] for name in ("database", "valkey", "core"))
    page = (ROOT / "docs/how-to/size-and-scale.md").read_text()
    (file,) = re.findall(r"```text\n(services:.*?)```", page, re.DOTALL)
    joining = {name for name, one in yaml.safe_load(file)["services"].items() if one == {"networks": ["outside"]}}
    assert joining == {name for name in NEEDS if "database" in on[name] and "outside" not in on[name]}


def test_example_environment_names_every_variable_that_compose_requires() -> None:
    text = (ROOT / "ops/compose.yaml").read_text()
    required = set(re.findall(r"(?<!\$)\$\{(\w+):\?", text))
    named = set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE))
    assert required <= named <= set(re.findall(r"(?<!\$)\$\{(\w+)", text)) | {"COMPOSE_PROFILES"}
