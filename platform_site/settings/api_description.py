"""Settings of the OpenAPI description: its hooks, and names of values that several bodies share."""

from __future__ import annotations

from typing import Final

from kernel.version import VERSION

SPECTACULAR_SETTINGS: Final[dict[str, object]] = {
    "TITLE": "Partita control plane",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["apps.accounts.rest.IsSignedIn"],
    "GET_LIB_DOC_EXCLUDES": "apps.http.rest.documentation.classes_without_words",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "apps.executions.rest.streams.with_streams",
        "apps.environments.rest.streams.with_stream",
        "apps.http.rest.documentation.with_problems",
        "platform_site.api_words.add_words",
    ],
    "ENUM_NAME_OVERRIDES": {  # what several bodies call `status`, `trigger` and `mode`
        "ExecutionStatusEnum": "apps.executions.rest.schemas.RUN_STATUSES",
        "StepStatusEnum": "apps.executions.rest.schemas.STEP_STATUSES",
        "AgentStatusEnum": ["online", "offline"],
        "AgentKindEnum": ["runner", "worker"],
        "JobOutcomeEnum": "apps.workers.rest.inputs.OUTCOMES",
        "LogLevelEnum": "apps.workers.rest.inputs.LEVELS",
        "ExecutionTriggerEnum": "apps.executions.domain.runs.TRIGGERS",
        "LaunchTriggerEnum": ["Manual", "CI", "API"],
        "TokenScopeEnum": ["read", "run", "admin"],
        "MemberRoleEnum": ["viewer", "runner", "admin"],
        "JobRoleEnum": ["viewer", "runner"],
        "BackendModeEnum": ["local", "remote", "hybrid"],
        "FallbackModeEnum": ["static", "example", "proxy"],
        "PackageStatusEnum": "apps.catalog.domain.packages.STATUSES",
        "SuiteStatusEnum": ["Installed", "Verified", "Invalid"],
        "BackendStatusEnum": ["Ready", "Disconnected", "Standby"],
    },
    "SWAGGER_UI_DIST": "SIDECAR",  # from our own files: the content policy allows no other origin
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": False, "docExpansion": "list"},  # no link in a button
}
