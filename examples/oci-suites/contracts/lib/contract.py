"""Contracts, JSON servers and JUnit reports, for the services and tests of this folder."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen
from xml.sax.saxutils import quoteattr

ROOT = Path(os.environ["PARTITA_WORKSPACE_DIR"])
TYPES = {"integer": int, "string": str, "boolean": bool, "number": (int, float), "array": list, "object": dict}


def operations(name):
    """What the OpenAPI contract of a service promises: one dict for each GET and status."""
    contract = json.loads((ROOT / "api" / f"{name}.json").read_text())
    for template, methods in contract["paths"].items():
        operation = methods["get"]
        for status, response in operation["responses"].items():
            path = template
            for parameter in operation.get("parameters", []):
                value = parameter["examples"][status]["value"]
                path = path.replace("{" + parameter["name"] + "}", str(value))
            content = response["content"]["application/json"]
            schema = inlined(content["schema"], contract)
            yield {"path": path, "status": int(status), "schema": schema, "example": content["example"]}


def inlined(schema, contract):
    """A schema with its references (#/components/schemas/…) in place."""
    if isinstance(schema, list):
        return [inlined(each, contract) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return inlined(contract["components"]["schemas"][schema["$ref"].rpartition("/")[2]], contract)
    return {key: inlined(value, contract) for key, value in schema.items()}


def differences(schema, value, where="body"):
    """What in a value is not as the schema says; members that it does not name are allowed."""
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{where} must be of type {kind}, not {json.dumps(value)}"]
    if kind == "array":
        too_short = [f"{where} must not be empty"] if len(value) < schema.get("minItems", 0) else []
        inner = [each for n, item in enumerate(value) for each in differences(schema["items"], item, f"{where}[{n}]")]
        return too_short + inner
    if kind == "object":
        missing = [f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value]
        known = schema.get("properties", {})
        return missing + [
            each
            for name, inner in known.items()
            if name in value
            for each in differences(inner, value[name], f"{where}.{name}")
        ]
    return []


def get(path):
    """Status and body of a GET at BASE_URL."""
    try:
        with urlopen(os.environ["BASE_URL"] + path, timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def serve(answer_to, port):
    """Serve JSON: `answer_to(path)` returns status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = (200, {"status": "ok"}) if self.path == "/health" else answer_to(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, words, *values):
            if self.path != "/health":
                print(words % values, flush=True)

    ThreadingHTTPServer(("", port), Handler).serve_forever()


def report(suite, results):
    """Write a JUnit report of (name, failure or None) and end with 1 if one failed."""
    failed = [failure for _, failure in results if failure]
    cases = "".join(
        f"<testcase classname={quoteattr(suite)} name={quoteattr(name)}>"
        + (f"<failure message={quoteattr(failure)}/>" if failure else "")
        + "</testcase>"
        for name, failure in results
    )
    text = f"<testsuite name={quoteattr(suite)} tests='{len(results)}' failures='{len(failed)}'>{cases}</testsuite>"
    Path(os.environ["PARTITA_ARTIFACTS_DIR"], "report.xml").write_text(text)
    for name, failure in results:
        print("failed" if failure else "passed", name, failure or "")
    raise SystemExit(1 if failed else 0)
