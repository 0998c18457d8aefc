"""Google's reflection client for Python: python reflection_client.py HOST:PORT"""

import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

database = ProtoReflectionDescriptorDatabase(grpc.insecure_channel(sys.argv[1]))
services = set(database.get_services())
wanted = {f"etcdserverpb.{name}" for name in ("KV", "Watch", "Lease", "Cluster", "Maintenance", "Auth")}
assert wanted | {"grpc.health.v1.Health"} <= services, services

put = DescriptorPool(database).FindServiceByName("etcdserverpb.KV").FindMethodByName("Put")
assert put.input_type.fields_by_name["ignore_lease"].number == 6
print("ok", sorted(services))
