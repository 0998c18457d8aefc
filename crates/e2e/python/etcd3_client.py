"""The etcd3 package for Python against a cluster: python etcd3_client.py HOST:PORT"""

import sys
import threading
import time

import etcd3

host, port = sys.argv[1].split(":")
client = etcd3.client(host=host, port=int(port), timeout=10)


def it_puts_gets_and_deletes():
    client.put("py/a", "1")
    value, meta = client.get("py/a")
    assert value == b"1", value
    assert meta.version == 1 and meta.create_revision == meta.mod_revision
    client.put("py/a", "2", prev_kv=True)
    value, meta = client.get("py/a")
    assert (value, meta.version) == (b"2", 2)
    assert client.delete("py/a") is True
    assert client.delete("py/a") is False
    assert client.get("py/a") == (None, None)


def it_reads_prefixes_in_order():
    for name in ["c", "a", "b"]:
        client.put("py/p/" + name, name)
    found = [(value, meta.key) for value, meta in client.get_prefix("py/p/", sort_order="descend")]
    assert found == [(b"c", b"py/p/c"), (b"b", b"py/p/b"), (b"a", b"py/p/a")], found
    assert len(list(client.get_prefix("py/p/", keys_only=True))) == 3
    assert len(list(client.get_range("py/p/a", "py/p/c"))) == 2
    assert client.delete_prefix("py/p/").deleted == 3


def it_runs_transactions():
    t = client.transactions
    client.put("py/t", "1")
    done, answers = client.transaction(
        compare=[t.value("py/t") == "1", t.version("py/t") > 0],
        success=[t.put("py/t", "2"), t.get("py/t")],
        failure=[t.get("py/t")],
    )
    assert done is True
    assert answers[1][0][0] == b"2", answers
    done, answers = client.transaction(
        compare=[t.value("py/t") == "1"],
        success=[t.put("py/t", "3")],
        failure=[t.get("py/t"), t.delete("py/t")],
    )
    assert done is False
    assert client.get("py/t")[0] is None
    assert client.put_if_not_exists("py/t", "new") is True
    assert client.put_if_not_exists("py/t", "newer") is False
    assert client.replace("py/t", "new", "newest") is True
    assert client.replace("py/t", "new", "none") is False


def it_calls_back_for_watched_keys():
    seen = []
    enough = threading.Event()

    def heard(response):
        seen.extend(response.events)
        if len(seen) >= 3:
            enough.set()

    watch_id = client.add_watch_prefix_callback("py/w/", heard)
    client.put("py/w/1", "a")
    client.put("py/w/2", "b")
    client.delete("py/w/1")
    assert enough.wait(10), seen
    assert [event.key for event in seen] == [b"py/w/1", b"py/w/2", b"py/w/1"]
    assert isinstance(seen[2], etcd3.events.DeleteEvent)
    client.cancel_watch(watch_id)


def it_keeps_and_ends_leases():
    lease = client.lease(2)
    assert lease.granted_ttl == 2
    client.put("py/l", "x", lease=lease)
    assert [answer.TTL for answer in lease.refresh()] == [2]
    assert 0 <= lease.remaining_ttl <= 2
    assert list(lease.keys) == [b"py/l"]
    lease.revoke()
    assert client.get("py/l")[0] is None


def it_locks():
    first = client.lock("py", ttl=10)
    assert first.acquire(timeout=5)
    assert first.is_acquired()
    second = client.lock("py", ttl=10)
    assert not second.acquire(timeout=0.3)
    taken = []
    waiter = threading.Thread(target=lambda: taken.append(second.acquire(timeout=10)))
    waiter.start()
    first.release()
    # The package tries, and then watches: what happens in between it misses. So something happens again until it hears.
    while waiter.is_alive():
        if client.put_if_not_exists(second.key, "nudge"):
            client.transaction(
                compare=[client.transactions.value(second.key) == "nudge"],
                success=[client.transactions.delete(second.key)],
                failure=[],
            )
        waiter.join(0.2)
    assert taken == [True]
    second.release()
    with client.lock("py", ttl=10) as third:
        assert third.is_acquired()


def it_reports_members_and_status():
    members = list(client.members)
    assert all(member.name.startswith("n") for member in members)
    status = client.status()
    assert status.version.startswith("3.")
    assert status.leader is not None


def it_compacts():
    client.put("py/c", "1")
    revision = client.get("py/c")[1].mod_revision
    client.put("py/c", "2")
    client.compact(revision)
    try:
        client.compact(revision)
    except Exception:
        return
    raise AssertionError("compacting twice must be refused")


for check in [it for name, it in list(globals().items()) if name.startswith("it_")]:
    begun = time.monotonic()
    check()
    print(f"{check.__name__}: {time.monotonic() - begun:.2f} s", flush=True)
client.close()
