"""Every GET of its contract answers with the schema of its response 200."""

import json
import os
from pathlib import Path
from urllib.request import urlopen
from xml.sax.saxutils import quoteattr

TYPES = {
    "integer": int,
    "number": (int, float),
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def differences(schema, value, where="body"):
    if not isinstance(value, TYPES[schema["type"]]):
        return [f"{where} must be of type {schema['type']}, not {json.dumps(value)}"]
    if schema["type"] == "array":
        return [
            each
            for n, item in enumerate(value)
            for each in differences(schema["items"], item, f"{where}[{n}]")
        ]
    if schema["type"] == "object":
        missing = [
            f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value
        ]
        return missing + [
            each
            for name, inner in schema.get("properties", {}).items()
            if name in value
            for each in differences(inner, value[name], f"{where}.{name}")
        ]
    return []


contract = json.loads(Path(os.environ["PARTITA_WORKSPACE_DIR"], "api", "openapi.json").read_text())
cases, failed = "", 0
for path, methods in contract["paths"].items():
    with urlopen(os.environ["BASE_URL"] + path, timeout=10) as answer:
        body = json.load(answer)
    schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    wrong = differences(schema, body)
    failed += bool(wrong)
    print("failed" if wrong else "passed", "GET", path, "; ".join(wrong))
    failure = f"<failure message={quoteattr('; '.join(wrong))}/>" if wrong else ""
    cases += f"<testcase classname='contract' name={quoteattr('GET ' + path)}>{failure}</testcase>"
report = f"<testsuite name='contract' failures='{failed}'>{cases}</testsuite>"
Path(os.environ["PARTITA_ARTIFACTS_DIR"], "report.xml").write_text(report)
raise SystemExit(1 if failed else 0)
