import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = Path(__file__).parents[2] / "ops/kubernetes"
KUBECTL = Path(sys.executable).parent / "kubectl"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())


@cache
def documents_of(directory: Path) -> tuple[dict[str, Any], ...]:
    done = subprocess.run([KUBECTL, "kustomize", directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def built(overlay: str) -> tuple[dict[str, Any], ...]:
    return documents_of(KUBERNETES / "overlays" / overlay)


def of_kind(overlay: str, kind: str) -> dict[str, dict[str, Any]]:
    return {role_of(one["metadata"]["name"]): one for one in built(overlay) if one["kind"] == kind}


def role_of(name: str) -> str:
    """A resource's name without `tombola-` and without the hash of a generated one."""
    return re.sub(r"-[0-9a-z]{10}$", "", name.removeprefix("tombola-"))


def pods(overlay: str) -> dict[str, dict[str, Any]]:
    found = {}
    for one in built(overlay):
        template = one.get("spec", {}).get("template", {})
        labels = template.get("metadata", {}).get("labels", {})
        if labels.get("app") == "tombola":
            found[labels["role"]] = template["spec"]
    return found


def documented_secrets() -> dict[str, str]:
    """The variable of each Secret, as the base lists them."""
    head = (KUBERNETES / "base/kustomization.yaml").read_text()
    return dict(re.findall(r"^#   (tombola-\w+) +([A-Z_]+)", head, re.MULTILINE))
