"""A bare gRPC server of the mock benchmark: one method of a generated servicer, on grpc.aio.

`python -m bench.peers.mock_grpc PORT FOLDER`; the folder gets the generated modules.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from grpc_tools import protoc

from bench import mock_api


def generated(folder: Path) -> tuple[Any, Any]:
    """Return the modules of the messages and of the services."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sales.proto").write_text(mock_api.PROTO)
    outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(["protoc", f"-I{folder}", *outputs, "sales.proto"]) == 0
    sys.path.insert(0, str(folder))
    return importlib.import_module("sales_pb2"), importlib.import_module("sales_pb2_grpc")


async def serve(port: int, folder: Path) -> None:
    messages, services = generated(folder)
    answer = json_format.ParseDict(mock_api.document("cart"), messages.Document())

    class Sales(services.SalesServicer):
        async def GetCart(self, request: Any, context: Any) -> Any:  # noqa: N802 - its name
            return answer

    server = grpc.aio.server()
    services.add_SalesServicer_to_server(Sales(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
