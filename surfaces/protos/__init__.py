"""What `.proto` files declare, by the descriptors that protoc makes of them in a child process.

protos = compile_protos(files)       # blocks for a process the first time: call it on a thread
method = protos.methods["/shop.v1.Orders/Get"]
"""

from surfaces.protos.compiler import compile_protos
from surfaces.protos.descriptors import ProtoMethod, Protos

__all__ = ["ProtoMethod", "Protos", "compile_protos"]
