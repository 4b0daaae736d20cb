// ioredis with its defaults.
const assert = require("node:assert");
const { Redis } = require("ioredis");

async function main() {
  const [host, port] = process.argv[2].split(":");
  const client = new Redis({ host, port: Number(port) });
  client.on("error", (error) => { throw error; });
  assert.equal(await client.ping(), "PONG");
  const throttle = (key) => client.call("CL.THROTTLE", key, 4, 5, 600);
  const replies = await Promise.all(Array.from({ length: 15 }, () => throttle("ioredis")));
  assert.deepEqual(replies.map((reply) => reply[0]), [...Array(5).fill(0), ...Array(10).fill(1)]);
  assert.equal(await client.del("ioredis"), 1);
  assert.deepEqual((await throttle("ioredis")).slice(0, 4), [0, 5, 4, -1]);
  const checks = [];
  for (let number = 0; number < 6; number += 1) {
    checks.push(JSON.stringify(await client.call("TG.CHECK", "api", "user", "ioredis")));
  }
  assert.deepEqual(checks.map((check) => check.includes("rate_exceeded")), [...Array(5).fill(false), true]);
  const transaction = client.multi();
  for (let number = 0; number < 8; number += 1) {
    transaction.call("CL.THROTTLE", "ioredis-at-once", 4, 5, 600);
  }
  const decided = (await transaction.exec()).map(([error, reply]) => error ?? reply[0]);
  assert.deepEqual(decided, [...Array(5).fill(0), ...Array(3).fill(1)]);
  await client.quit();
  console.log("held");
}

main();
