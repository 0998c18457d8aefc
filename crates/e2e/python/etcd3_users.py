"""The etcd3 package for Python with TLS and a user: python etcd3_users.py HOST:PORT CA CERT KEY USER PASSWORD"""

import sys

import etcd3

address, ca, cert, key, user, password = sys.argv[1:]
host, port = address.split(":")


def connect(password):
    return etcd3.client(
        host=host, port=int(port), ca_cert=ca, cert_cert=cert, cert_key=key, timeout=10,
        user=user, password=password,
    )


client = connect(password)
client.put("foo/py", "1")
assert client.get("foo/py")[0] == b"1"
lease = client.lease(60)
client.put("foo/leased", "x", lease=lease)
assert [answer.TTL for answer in lease.refresh()] == [60]
lease.revoke()
try:
    client.put("bar", "1")
except Exception as refused:
    assert "permission denied" in str(refused), refused
else:
    raise AssertionError("it may not write there")
try:
    connect("wrong")
except Exception as refused:
    assert "authentication failed" in str(refused), refused
else:
    raise AssertionError("a wrong password was taken")
client.close()
print("ok")
