// node-redis with its defaults.
const assert = require("node:assert");
const { createClient } = require("redis");

async function main() {
  const client = createClient({ url: `redis://${process.argv[2]}` });
  client.on("error", (error) => { throw error; });
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  const throttle = (key) => client.sendCommand(["CL.THROTTLE", key, "4", "5", "600"]);
  const replies = await Promise.all(Array.from({ length: 15 }, () => throttle("node-redis")));
  assert.deepEqual(replies.map((reply) => reply[0]), [...Array(5).fill(0), ...Array(10).fill(1)]);
  assert.equal(await client.del("node-redis"), 1);
  assert.deepEqual((await throttle("node-redis")).slice(0, 4), [0, 5, 4, -1]);
  const checks = [];
  for (let number = 0; number < 6; number += 1) {
    checks.push(JSON.stringify(await client.sendCommand(["TG.CHECK", "api", "user", "node-redis"])));
  }
  assert.deepEqual(checks.map((check) => check.includes("rate_exceeded")), [...Array(5).fill(false), true]);
  const transaction = client.multi();
  for (let number = 0; number < 8; number += 1) {
    transaction.addCommand(["CL.THROTTLE", "node-redis-at-once", "4", "5", "600"]);
  }
  const decided = (await transaction.exec()).map((reply) => reply[0]);
  assert.deepEqual(decided, [...Array(5).fill(0), ...Array(3).fill(1)]);
  await client.close();
  console.log("held");
}

main();
