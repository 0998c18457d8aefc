"""The etcd3gw package for Python, which speaks nothing but JSON: python etcd3gw_client.py HOST:PORT"""

import sys
import threading
import uuid

import etcd3gw

host, port = sys.argv[1].split(":")
client = etcd3gw.client(host=host, port=int(port), timeout=10, api_path="/v3/")


def it_puts_gets_and_deletes():
    assert client.put("gw/a", "1") is True
    assert client.get("gw/a") == [b"1"]
    [(value, meta)] = client.get("gw/a", metadata=True)
    assert (value, meta["key"], meta["version"]) == (b"1", b"gw/a", "1"), meta
    assert client.put("gw/empty", "") is True
    assert client.get("gw/empty") == [b""]
    assert client.delete("gw/a") is True
    assert client.delete("gw/a") is False
    assert client.get("gw/a") == []


def it_keeps_bytes():
    everything = bytes(range(256))
    client.put(b"gw/bytes/" + everything, everything)
    assert client.get(b"gw/bytes/" + everything) == [everything]


def it_reads_prefixes_in_order():
    for name in ["c", "a", "b"]:
        client.put("gw/p/" + name, name)
    found = client.get_prefix("gw/p/", sort_order="descend", sort_target="key")
    assert [value for value, _ in found] == [b"c", b"b", b"a"], found
    assert client.delete_prefix("gw/p/") is True
    assert client.get_prefix("gw/p/") == []


def it_compares_and_swaps():
    assert client.create("gw/cas", "1") is True
    assert client.create("gw/cas", "2") is False
    assert client.replace("gw/cas", "1", "3") is True
    assert client.replace("gw/cas", "1", "4") is False
    assert client.get("gw/cas") == [b"3"]


def it_keeps_a_lease_alive_and_lets_it_go():
    lease = client.lease(ttl=60)
    client.put("gw/leased", "x", lease=lease)
    assert 0 < lease.ttl() <= 60
    assert lease.keys() == [b"gw/leased"]
    assert lease.refresh() == 60
    lease.revoke()
    assert client.get("gw/leased") == []


def it_locks():
    # The package's own recipe: a transaction that creates a key with a lease.
    name = "gw/lock/" + str(uuid.uuid4())
    first, second = client.lock(id=name, ttl=60), client.lock(id=name, ttl=60)
    assert first.acquire() is True
    assert first.is_acquired() is True
    assert second.acquire() is False
    assert first.refresh() == 60
    assert first.release() is True
    assert second.acquire() is True
    assert second.release() is True


def it_watches():
    events, cancel = client.watch_prefix("gw/w/")
    client.put("gw/w/a", "1")
    client.delete("gw/w/a")
    first, second = next(events), next(events)
    assert (first["kv"]["key"], first["kv"]["value"]) == (b"gw/w/a", b"1"), first
    assert second["type"] == "DELETE", second
    cancel()
    writer = threading.Timer(0.2, lambda: client.put("gw/w/once", "2"))
    writer.start()
    event = client.watch_once("gw/w/once", timeout=10)
    assert event["kv"]["value"] == b"2", event
    writer.join()


def it_knows_members_and_status():
    assert client.status()["version"].startswith("3.")
    assert len(list(client.members())) >= 1


def it_refuses_with_an_exception():
    try:
        client.post(client.get_url("/kv/range"), json={})
    except etcd3gw.exceptions.Etcd3Exception as refused:
        assert "key is not provided" in refused.detail_text, refused.detail_text
    else:
        raise AssertionError("an empty key was taken")


for name, test in list(globals().items()):
    if name.startswith("it_"):
        test()
        print("ok", name)
