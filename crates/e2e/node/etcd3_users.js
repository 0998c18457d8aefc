// The etcd3 package for Node with TLS and a user: node etcd3_users.js URL CA CERT KEY USER PASSWORD
// Found through NODE_PATH, where scripts/setup-tests put it.
const assert = require("assert");
const fs = require("fs");
const { Etcd3 } = require("etcd3");

const [hosts, ca, cert, key, username, password] = process.argv.slice(2);
const connect = (password) =>
  new Etcd3({
    hosts,
    credentials: {
      rootCertificate: fs.readFileSync(ca),
      certChain: fs.readFileSync(cert),
      privateKey: fs.readFileSync(key),
    },
    auth: { username, password },
  });

async function main() {
  const client = connect(password);
  await client.put("foo/node").value("1");
  assert.strictEqual(await client.get("foo/node").string(), "1");
  const watcher = await client.watch().key("foo/node").create();
  const seen = new Promise((resolve) => watcher.once("put", (kv) => resolve(kv.value.toString())));
  await client.put("foo/node").value("2");
  assert.strictEqual(await seen, "2");
  await watcher.cancel();
  await assert.rejects(client.put("bar").value("1").exec(), /permission denied/);
  await assert.rejects(connect("wrong").get("foo/node").string(), /authentication failed/);
  client.close();
  console.log("ok");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
