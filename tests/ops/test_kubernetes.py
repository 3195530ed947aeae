import base64
import math
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from runtime.groups import GROUPS
from runtime.settings import Settings
from runtime.settings.field import variable
from tests.support.kubernetes import (
    KUBERNETES,
    OVERLAYS,
    built,
    documented_secrets,
    documents_of,
    of_kind,
    pods,
    role_of,
)

CUSTOM = {"ScaledObject": "keda.sh/v1alpha1", "Cluster": "postgresql.cnpg.io/v1"}
CUSTOM_FIELDS = {
    "ScaledObject": "cooldownPeriod fallback.failureThreshold fallback.replicas maxReplicaCount minReplicaCount"
    " scaleTargetRef.name triggers.metadata.query triggers.metadata.serverAddress triggers.metadata.threshold"
    " triggers.type",
    "Cluster": "affinity.topologyKey bootstrap.initdb.database bootstrap.initdb.owner"
    " bootstrap.initdb.postInitApplicationSQL imageName instances managed.roles.ensure managed.roles.login"
    " managed.roles.name managed.roles.passwordSecret.name postgresql.parameters.checkpoint_timeout"
    " postgresql.parameters.max_connections postgresql.parameters.shared_buffers"
    " postgresql.parameters.wal_compression postgresql.synchronous.method postgresql.synchronous.number"
    " resources.limits.memory resources.requests.cpu resources.requests.memory storage.size walStorage.size",
}
"""Every field of their specs. The CRDs of KEDA and CloudNativePG of August 2026 accept them; look another one up."""

SCALED_BY_CPU = {"core", "consumer", "admin"}
SCALED_BY_LAG = {name for name, group in GROUPS.items() if group.stream is not None}


def settings() -> dict[str, Any]:
    return {variable(one): getattr(Settings(), one.name) for one in fields(Settings)}


def variables(overlay: str, container: dict[str, Any]) -> dict[str, str | None]:
    """A container's variables; None for the value of a Secret that the overlay does not generate."""
    found: dict[str, str | None] = {}
    generated = {one["metadata"]["name"]: one for one in built(overlay) if one["kind"] in ("ConfigMap", "Secret")}
    for source in container["envFrom"]:
        name = next(iter(source.values()))["name"]
        if name in generated:
            found |= dict.fromkeys(generated[name]["data"])
        else:
            found[documented_secrets()[name]] = None
    return found


def names_in(value: Any, at: str = "") -> set[str]:
    if isinstance(value, list):
        return set().union(*(names_in(one, at) for one in value))
    if isinstance(value, dict):
        return set().union(*(names_in(one, f"{at}.{name}".strip(".")) for name, one in value.items()))
    return {at}


@pytest.mark.parametrize("directory", [*(f"overlays/{name}" for name in OVERLAYS), "cloudnative-pg"])
def test_directory_builds_with_strictly_valid_resources(directory: str) -> None:
    documents = documents_of(KUBERNETES / directory)
    assert documents
    for one in documents:
        if one["kind"] in CUSTOM:
            assert one["apiVersion"] == CUSTOM[one["kind"]]
            assert sorted(names_in(one["spec"])) == CUSTOM_FIELDS[one["kind"]].split()
        else:
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
class TestOverlay:
    def test_every_role_is_deployed_once(self, overlay: str) -> None:
        assert set(pods(overlay)) == {"migrate", "core", "consumer", "admin", *GROUPS}
        for role, pod in pods(overlay).items():
            (container,) = pod["containers"]
            assert container["args"] == (["worker", role] if role in GROUPS else [role])

    def test_every_variable_is_a_setting(self, overlay: str) -> None:
        for role, pod in pods(overlay).items():
            assert not (variables(overlay, pod["containers"][0]).keys() - settings().keys()), role

    def test_ports_are_those_of_the_settings(self, overlay: str) -> None:
        ports = {name: settings()[name] for name in settings() if name.endswith("_PORT")}
        own = {"core": {"rest": ports["CORE_PORT"], "rpc": ports["RPC_PORT"]}}
        own |= {"consumer": {"http": ports["CONSUMER_PORT"]}, "admin": {"http": ports["ADMIN_PORT"]}}
        for role, pod in pods(overlay).items():
            declared = {port["name"]: port["containerPort"] for port in pod["containers"][0].get("ports", ())}
            assert declared == ({} if role == "migrate" else {**own.get(role, {}), "metrics": ports["METRICS_PORT"]})
        for role, service in of_kind(overlay, "Service").items():
            if role in own:
                (port,) = service["spec"]["ports"]
                assert own[role][port.get("targetPort", port["name"])] in (port["port"], own[role].get("http"))
        (edge,) = [one for name, one in of_kind(overlay, "ConfigMap").items() if name == "edge"]
        assert edge["data"]["CORE_RPC_ADDRESSES"] == f"tombola-core:{ports['RPC_PORT']}"

    def test_names_lead_to_resources_of_the_overlay(self, overlay: str) -> None:
        named = {(one["kind"], one["metadata"]["name"]) for one in built(overlay)}
        for pod in pods(overlay).values():
            for source in pod["containers"][0]["envFrom"]:
                if "configMapRef" in source:
                    assert ("ConfigMap", source["configMapRef"]["name"]) in named
                else:
                    secret = role_of(source["secretRef"]["name"])
                    assert secret in map(role_of, documented_secrets())
                    # Not every installation has a bucket, or a mail server.
                    assert source["secretRef"].get("optional", False) == (secret in ("assets", "login"))
        for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            for one in of_kind(overlay, kind).values():
                target = one["spec"]["scaleTargetRef"]
                assert (target.get("kind", "Deployment"), target["name"]) in named
        for one in of_kind(overlay, "Ingress").values():
            for rule in one["spec"]["rules"]:
                for path in rule["http"]["paths"]:
                    assert ("Service", path["backend"]["service"]["name"]) in named

    def test_scaled_deployment_has_no_replicas_to_set_back(self, overlay: str) -> None:
        scaled = {*of_kind(overlay, "HorizontalPodAutoscaler"), *of_kind(overlay, "ScaledObject")}
        fixed = {role for role, one in of_kind(overlay, "Deployment").items() if "replicas" in one["spec"]}
        assert fixed == {"core", "consumer", "admin", *GROUPS} - scaled


@pytest.mark.parametrize("overlay", ["production", "production-keda"])
class TestProduction:
    def test_core_and_edges_are_scaled_by_cpu_and_survive_a_drained_node(self, overlay: str) -> None:
        scalers = of_kind(overlay, "HorizontalPodAutoscaler")
        assert scalers.keys() == of_kind(overlay, "PodDisruptionBudget").keys() == SCALED_BY_CPU
        for role in SCALED_BY_CPU:
            assert scalers[role]["spec"]["minReplicas"] >= 2
            assert pods(overlay)[role]["containers"][0]["resources"]["requests"]["cpu"], "a share of nothing"
            budget = of_kind(overlay, "PodDisruptionBudget")[role]["spec"]
            assert budget["maxUnavailable"] == 1
            assert budget["selector"]["matchLabels"] == {"app": "tombola", "role": role}

    def test_replicas_are_spread_over_zones_and_nodes(self, overlay: str) -> None:
        for role, one in of_kind(overlay, "Deployment").items():
            spread = one["spec"]["template"]["spec"]["topologySpreadConstraints"]
            keys = [by["topologyKey"] for by in spread]
            assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"], role
            assert all("role" in by["matchLabelKeys"] for by in spread)

    def test_keys_are_not_in_the_files(self, overlay: str) -> None:
        assert not of_kind(overlay, "Secret")


def test_dev_overlay_has_every_value_that_its_processes_need() -> None:
    generated = {one["metadata"]["name"]: one for one in built("dev") if one["kind"] in ("ConfigMap", "Secret")}
    for role, pod in pods("dev").items():
        environ: dict[str, str] = {}
        for source in pod["containers"][0]["envFrom"]:
            one = generated[next(iter(source.values()))["name"]]
            secret = one["kind"] == "Secret"
            environ |= {name: base64.b64decode(text).decode() if secret else text for name, text in one["data"].items()}
        roles = {"core": ["core", "rpc"], **{name: [f"worker:{name}"] for name in GROUPS}}.get(role, [role])
        Settings.from_env(environ, roles)


def test_workers_are_scaled_by_each_stream_and_by_due_tasks() -> None:
    scalers = of_kind("production-keda", "ScaledObject")
    assert scalers.keys() == SCALED_BY_LAG
    for name, scaler in scalers.items():
        queries = [trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"]]
        streams = GROUPS[name].streams(Settings().stream_shards)
        lags = [f'max(tombola_stream_lag{{group="{name}",stream="{stream}"}})' for stream in streams]
        assert queries == [*lags, *(["max(tombola_tasks_due)"] if name == "deliveries" else [])]


def test_migration_runs_again_for_another_version(tmp_path: Path) -> None:
    """A Job's template is immutable: with one name, the apply of another image would fail."""
    copied = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, copied)
    file = copied / "overlays/production/kustomization.yaml"
    file.write_text(file.read_text().replace("newTag: 0.1.0", "newTag: 0.2.0"))
    (later,) = [one for one in documents_of(copied / "overlays/production") if one["kind"] == "Job"]
    (job,) = of_kind("production", "Job").values()
    assert (job["metadata"]["name"], later["metadata"]["name"]) == ("tombola-migrate-0.1.0", "tombola-migrate-0.2.0")
    assert later["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":0.2.0")
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert job["spec"]["ttlSecondsAfterFinished"] > 0


def test_connections_of_all_replicas_fit_into_the_example_database() -> None:
    (cluster,) = [one for one in documents_of(KUBERNETES / "cloudnative-pg") if one["kind"] == "Cluster"]
    scalers = of_kind("production-keda", "HorizontalPodAutoscaler") | of_kind("production-keda", "ScaledObject")
    specs = [scalers[role]["spec"] for role in ("core", *SCALED_BY_LAG)]
    most = [1, *(spec.get("maxReplicas") or spec["maxReplicaCount"] for spec in specs)]  # 1: the auditor.
    surged = sum(math.ceil(1.25 * replicas) for replicas in most)  # A rollout adds a quarter.
    assert surged * Settings().database_pool_size < int(cluster["spec"]["postgresql"]["parameters"]["max_connections"])
