"""The config.cue of the demo: where settings come from, where they go, and a rule for each way."""

from __future__ import annotations

from collections.abc import Sequence

from examples.sync.sinks import ENVIRONMENT, Sink

REPOSITORY = "acme/shop"
FILE = "config/app.yaml"


def config_cue(git_url: str, sinks: Sequence[Sink]) -> str:
    datasources = ",\n\t\t".join(sink.datasource for sink in sinks)
    rules = ",\n\t\t".join(map(_rule, sinks))
    return f"""bundle: {{
	platforms: [{{github: {{endpoint: "{git_url}", secret: {{env: "WEBHOOK_SECRET"}}}}}}]
	datasources: [
		{datasources},
	]
	rules: [
		{rules},
	]
}}
"""


def _rule(sink: Sink) -> str:
    return f"""{{name: "{sink.rule}", platform: "github", datasource: "{sink.name}"
			repositories: ["{REPOSITORY}"], file_name: "{FILE}"
			branch_map: {{main: "{ENVIRONMENT}"}}, destination_template: "{sink.destination}"
			self_heal: true}}"""
