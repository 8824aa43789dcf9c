"""Wire values in their shapes (reference: control-plane 9, 11.2, 12, 16)."""

from __future__ import annotations

from typing import Any

RUN_ID = "run-3f9a0c1be77d"
STARTED = "2026-01-02T03:04:05.123Z"


def node(name: str, level: int, needs: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "kind": "task",
        "variant": "run",
        "level": level,
        "dependsOn": list(needs),
        "after": list(needs),
        "onFailure": [],
        "continueOnFailure": False,
        "idempotent": False,
        "retries": 0,
        "timeoutMs": 600_000,
    } | more


TOPOLOGY = [
    node("store", 0, kind="service", image="redis:7-alpine", ports=["6379/tcp"]),
    node("migrate", 1, ("store",), image="busybox:1.36", file="tasks/migrate.sh"),
    node("api", 2, ("migrate",), kind="service", image="busybox:1.36"),
    node("seed", 2, ("migrate",), retries=2, image="busybox:1.36"),
    node("checkout", 3, ("api", "seed"), kind="test", image="busybox:1.36"),
    node("search", 3, ("api", "seed"), kind="test", image="busybox:1.36"),
    node("smoke", 3, ("api",), kind="test", image="busybox:1.36"),
    node("rollback", 4, ("checkout", "store"), after=["store"], onFailure=["checkout"]),
    node("report", 4, ("checkout", "search", "smoke"), kind="log", variant="info"),
]

STEP_FACTS: dict[str, dict[str, Any]] = {
    "store": {"status": "healthy", "attempt": 1, "startedAt": STARTED, "durationMs": 2140},
    "migrate": {"status": "healthy", "attempt": 1, "startedAt": STARTED, "durationMs": 850},
    "api": {"status": "healthy", "attempt": 1, "startedAt": STARTED, "durationMs": 4020},
    "seed": {"status": "healthy", "attempt": 2, "startedAt": STARTED, "durationMs": 3125},
    "checkout": {
        "status": "failed",
        "attempt": 1,
        "reason": "exit_nonzero",
        "detail": "exit code 3, expected 0",
        "exitCode": 3,
        "agentId": "runner-1",
        "startedAt": STARTED,
        "durationMs": 12_400,
    },
    "search": {
        "status": "running",
        "attempt": 1,
        "startedAt": STARTED,
        "usage": {"cpuPercent": 12.5, "memoryBytes": 34 * 2**20, "memoryPeakBytes": 40 * 2**20},
    },
    "smoke": {"status": "queued", "attempt": 1},
    "rollback": {"status": "pending", "attempt": 0, "waitingOn": ["store"]},
    "report": {
        "status": "skipped",
        "attempt": 0,
        "reason": "dependency_failed",
        "cause": [{"stepId": "checkout", "reason": "exit_nonzero", "exitCode": 3}],
    },
}


def step(topology_node: dict[str, Any]) -> dict[str, Any]:
    keys = ("id", "name", "kind", "variant", "level", "dependsOn", "onFailure", "continueOnFailure")
    return (
        {key: topology_node[key] for key in keys}
        | {"waitingOn": []}
        | STEP_FACTS[topology_node["id"]]
    )


def event(number: int, source: str, what: str, status: str, level: str = "info") -> dict[str, Any]:
    return {
        "id": f"{source}-{what}",
        "source": source,
        "timestamp": f"00:{number:02d}",
        "time": STARTED,
        "text": f"{source} is {what}",
        "status": status,
        "level": level,
    }


def summary(**more: Any) -> dict[str, Any]:
    return {
        "id": RUN_ID,
        "suiteId": "shop",
        "suiteTitle": "Shop",
        "profile": "local.yaml",
        "backendId": "local-docker",
        "backend": "Local Docker",
        "backendKind": "local",
        "trigger": "Manual",
        "status": "Booting",
        "failing": True,
        "sentence": "checkout exited with code 3, expected 0",
        "duration": "00:31",
        "durationMs": 31_000,
        "startedAt": STARTED,
        "bootedAt": STARTED,
        "workspaceId": "6f2c6a52-8c1a-4d52-9f3e-d7c5b1b0a111",
    } | more


def attempt(number: int, run_id: str, status: str = "Failed") -> dict[str, Any]:
    return {"number": number, "id": run_id, "status": status, "sentence": "", "startedAt": STARTED}


def without_green() -> dict[str, Any]:
    sentence = "No run of this suite was Healthy before this one."
    return {"sentence": sentence, "differences": [], "moreDifferences": 0}


def detail(**more: Any) -> dict[str, Any]:
    return (
        summary()
        | {
            "updatedAt": STARTED,
            "suite": {
                "id": "shop",
                "title": "Shop",
                "repository": "examples/shop",
                "suiteStar": "",
                "profiles": [],
                "folders": [],
                "sourceFiles": [],
                "topology": TOPOLOGY,
                "resolvedDependencies": [],
                "apiSurfaces": [],
            },
            "author": "Ada Lovelace",
            "commit": "",
            "branch": "",
            "message": "",
            "steps": [step(topology_node) for topology_node in TOPOLOGY],
            "events": [
                event(0, "execution", "queued", "pending"),
                event(1, "store", "running", "running"),
                event(3, "store", "healthy", "healthy"),
                event(14, "checkout", "failed", "failed", "error"),
            ],
            "artifacts": [ARTIFACT],
            "verdict": VERDICT,
            "attempts": [attempt(1, RUN_ID)],
            "lastEventId": 4,
            "lastLogId": 0,
        }
        | more
    )


VERDICT: dict[str, Any] = {
    "sentence": "checkout exited with code 3, expected 0",
    "steps": [
        {
            "stepId": "checkout",
            "sentence": "checkout exited with code 3, expected 0",
            "mayFail": False,
            "causes": ["store exited with code 137"],
            "cases": [
                {"name": "pays", "classname": "shop.cart", "message": "expected 3 items, got 2"}
            ],
            "moreCases": 2,
            "lines": [{"number": 41, "text": "AssertionError: 3 != 2"}],
            "wroteNothing": False,
        }
    ],
    "moreSteps": 0,
    "healthySteps": 4,
    "next": f"partita run logs {RUN_ID} --source checkout",
}
ARTIFACT = {
    "id": "checkout-junit-xml-junit",
    "stepId": "checkout",
    "stepName": "checkout",
    "path": "junit.xml",
    "on": "always",
    "format": "junit",
    "attempt": 1,
    "size": 3482,
    "sha256": "0" * 64,
    "mediaType": "application/xml",
    "href": f"/api/v1/executions/{RUN_ID}/artifacts/checkout-junit-xml-junit",
    "createdAt": STARTED,
    "testSummary": {"total": 12, "passed": 11, "failures": 1, "errors": 0, "skipped": 0},
}


def overview_item(**more: Any) -> dict[str, Any]:
    return (
        summary()
        | {
            "updatedAt": STARTED,
            "totalSteps": 9,
            "pendingSteps": 1,
            "queuedSteps": 1,
            "runningSteps": 1,
            "healthySteps": 4,
            "failedSteps": 1,
            "skippedSteps": 1,
            "canceledSteps": 0,
            "progressRatio": 0.78,
        }
        | more
    )


def overview() -> dict[str, Any]:
    items = [
        overview_item(),
        overview_item(
            id="run-aaaa00001111", status="Healthy", failing=False, suiteTitle="Hello",
            suiteId="hello", duration="00:09", durationMs=9000, totalSteps=4, pendingSteps=0,
            queuedSteps=0, runningSteps=0, healthySteps=4, failedSteps=0, skippedSteps=0,
            backend="Local processes (not isolated)", finishedAt=STARTED,
        ),
        overview_item(
            id="run-bbbb00001111", status="Queued", failing=False, queuePosition=2,
            duration="00:00", durationMs=0, totalSteps=4, pendingSteps=4, queuedSteps=0,
            runningSteps=0, healthySteps=0, failedSteps=0, skippedSteps=0, profile="",
        ),
        overview_item(id="run-cccc00001111", status="Canceled", failing=False, finishedAt=STARTED),
    ]  # fmt: skip
    return {
        "updatedAt": STARTED,
        "summary": {
            "totalExecutions": 4,
            "queuedExecutions": 1,
            "bootingExecutions": 1,
            "healthyExecutions": 1,
            "failedExecutions": 0,
            "canceledExecutions": 1,
            "totalSteps": 26,
        },
        "executions": items,
    }


SUITE_STAR = """\
load("@partita/runtime", "service", "task", "test")

store = service.run(name="store", image="redis:7-alpine", ports=[6379])
migrate = task.run(name="migrate", file="migrate.sh", after=[store])
api = service.run(name="api", imge="busybox:1.36", after=[migrate])
"""


def profile(file_name: str, label: str, text: str, *, default: bool = False) -> dict[str, Any]:
    return {"fileName": file_name, "label": label, "description": text, "default": default}


def definition(**more: Any) -> dict[str, Any]:
    return {
        "id": "shop",
        "title": "Shop",
        "repository": "examples/shop",
        "owner": "examples",
        "provider": "Workspace",
        "version": "1.2.0",
        "tags": ["demo", "retry"],
        "description": "A small shop: a store, an API, migrations, a seed and tests.",
        "modules": ["runtime"],
        "status": "Installed",
        "score": 90,
        "pullCommand": "",
        "forkCommand": "",
        "suiteStar": SUITE_STAR,
        "profiles": [
            profile("local.yaml", "Local", "On this machine.", default=True),
            profile("ci.yaml", "CI", "Fewer retries."),
        ],
        "folders": [{"name": "profiles", "role": "Configuration", "files": ["ci.yaml"]}],
        "sourceFiles": [
            {"path": "README.md", "language": "markdown", "size": 7, "content": "# Shop\n"},
            {"path": "suite.star", "language": "starlark", "size": 200, "content": SUITE_STAR},
            {"path": "tasks/migrate.sh", "language": "bash", "size": 9, "content": "echo hi\n"},
        ],
        "topology": TOPOLOGY,
        "contracts": [],
        "apiSurfaces": [],
        "launchable": True,
        "contentDigest": "sha256:" + "1" * 64,
        "warnings": [],
    } | more


TOPOLOGY_ERROR = {
    "code": "unknown_keyword",
    "message": 'invalid suite topology: service.run: unknown keyword "imge"; known: after, image',
    "file": "suite.star",
    "line": 5,
    "column": 31,
}


def broken_definition() -> dict[str, Any]:
    whole = definition(launchable=False, topologyError=TOPOLOGY_ERROR)
    del whole["topology"]
    return whole


def launch_suites() -> list[dict[str, Any]]:
    return [
        {
            "id": "shop",
            "title": "Shop",
            "repository": "examples/shop",
            "description": "A small shop.",
            "provider": "Workspace",
            "status": "Installed",
            "profiles": definition()["profiles"],
            "backends": [
                {"id": "local-docker", "label": "Local Docker", "kind": "local",
                 "description": "", "default": True, "available": True},
                {"id": "edge", "label": "Edge", "kind": "remote-agent",
                 "description": "", "default": False, "available": False},
            ],
        }
    ]  # fmt: skip
