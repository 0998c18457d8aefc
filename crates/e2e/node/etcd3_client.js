// The etcd3 package for Node, which speaks gRPC: node etcd3_client.js HOST:PORT
// Found through NODE_PATH, where scripts/setup-tests put it.
const assert = require("assert");
const { Etcd3, EtcdLeaseInvalidError } = require("etcd3");

const client = new Etcd3({ hosts: process.argv[2] });

const tests = {
  async "it puts, gets and deletes"() {
    await client.put("node/a").value("1");
    assert.strictEqual(await client.get("node/a").string(), "1");
    assert.strictEqual(await client.get("node/none").string(), null);
    const found = await client.get("node/a").exec();
    assert.strictEqual(found.kvs[0].version, "1");
    const gone = await client.delete().key("node/a");
    assert.strictEqual(gone.deleted, "1");
  },

  async "it reads prefixes in order"() {
    for (const name of ["c", "a", "b"]) await client.put("node/p/" + name).value(name);
    const found = await client.getAll().prefix("node/p/").sort("Key", "Descend").strings();
    assert.deepStrictEqual(Object.values(found), ["c", "b", "a"]);
    await client.delete().prefix("node/p/");
    assert.strictEqual(await client.getAll().prefix("node/p/").count(), 0);
  },

  async "it compares and swaps"() {
    const create = (value) =>
      client.if("node/cas", "Create", "==", 0).then(client.put("node/cas").value(value)).commit();
    assert.strictEqual((await create("1")).succeeded, true);
    assert.strictEqual((await create("2")).succeeded, false);
    assert.strictEqual(await client.get("node/cas").string(), "1");
  },

  async "it keeps a lease alive and lets it go"() {
    const lease = client.lease(60);
    await lease.put("node/leased").value("x");
    await lease.keepaliveOnce();
    assert.strictEqual(await client.get("node/leased").string(), "x");
    await lease.revoke();
    assert.strictEqual(await client.get("node/leased").string(), null);
    await assert.rejects(lease.keepaliveOnce(), EtcdLeaseInvalidError);
  },

  async "it watches"() {
    const watcher = await client.watch().prefix("node/w/").create();
    const seen = new Promise((resolve) => {
      const events = [];
      watcher.on("put", (kv) => events.push(["put", kv.key.toString(), kv.value.toString()]));
      watcher.on("delete", (kv) => {
        events.push(["delete", kv.key.toString()]);
        resolve(events);
      });
    });
    await client.put("node/w/a").value("1");
    await client.delete().key("node/w/a");
    assert.deepStrictEqual(await seen, [
      ["put", "node/w/a", "1"],
      ["delete", "node/w/a"],
    ]);
    await watcher.cancel();
  },

  async "it locks and elects by recipes of its own"() {
    const lock = client.lock("node/lock");
    await lock.acquire();
    await assert.rejects(client.lock("node/lock").acquire());
    await lock.release();
    const campaign = client.election("node/election", 60).campaign("me");
    await new Promise((resolve, reject) => campaign.on("elected", resolve).on("error", reject));
    assert.strictEqual(await client.election("node/election").leader(), "me");
    await campaign.resign();
  },

  async "it knows the members"() {
    const { members } = await client.cluster.memberList({});
    assert.ok(members.length >= 1);
  },
};

(async () => {
  for (const [name, test] of Object.entries(tests)) {
    await test();
    console.log("ok", name);
  }
  client.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
