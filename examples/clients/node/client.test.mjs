// Tests of client.mjs against a server with scripted answers. No test sleeps.
//
//     node --test

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { Client, RetryBudget, items, main, pauseMsOf } from "./client.mjs";

const NOW = 1_800_000_000_000;
const PROBLEM = { "content-type": "application/problem+json" };
const OK = { status: 200 };

const dateAt = (ms) => new Date(ms).toUTCString();

/** Answers request number n with `answers[n]`, the last one again and again. */
async function serve(t, ...answers) {
  const seen = [];
  const tickets = [];
  const server = createServer((request, response) => {
    const { status, headers = {}, body = "" } = answers[Math.min(seen.length, answers.length - 1)];
    seen.push(request.headers["tidegate-attempt"]);
    tickets.push(request.headers["tidegate-ticket"]);
    response.sendDate = false;
    request.resume().on("end", () => response.writeHead(status, headers).end(body));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, tickets, url: `http://127.0.0.1:${server.address().port}/` };
}

function clientWith(settings = {}) {
  const waits = [];
  const defaults = { sleep: async (ms) => void waits.push(ms), random: () => 0.5, now: () => NOW };
  return { client: new Client({ ...defaults, ...settings }), waits };
}

test("seconds are waited in full and jitter is added", async (t) => {
  const { url, seen } = await serve(t, { status: 429, headers: { "retry-after": "3" } }, OK);
  const { client, waits } = clientWith();
  assert.equal((await client.call(url)).status, 200);
  assert.deepEqual([waits, seen], [[3050], [undefined, "1"]]);
  assert.deepEqual(client.counts, { admitted: 1, refused: 1, retried: 1, gave_up: 0, waited_ms: 3050 });
});

test("a ticket is shown after its wait without jitter and takes nothing from the budget", async (t) => {
  const deferred = (seconds, ticket) => {
    return { status: 503, headers: { "retry-after": String(seconds), "tidegate-ticket": ticket } };
  };
  const last = { status: 503, headers: { "retry-after": "1" } };
  const { url, tickets } = await serve(t, deferred(20, "one"), deferred(3, "two"), last, OK);
  const { client, waits } = clientWith({ budget: new RetryBudget({ ratio: 0, reserve: 1 }) });
  assert.equal((await client.call(url)).status, 200);
  assert.deepEqual([waits, tickets], [[20_000, 3_000, 1_200], [undefined, "one", "two", undefined]]);
});

test("a date is compared with the date of the answer", async (t) => {
  const headers = { date: dateAt(NOW - 500_000), "retry-after": dateAt(NOW - 493_000) };
  const { url } = await serve(t, { status: 429, headers }, OK);
  const { client, waits } = clientWith({ random: () => 0 });
  assert.equal((await client.call(url)).status, 200);
  assert.deepEqual(waits, [7000]);
});

test("a date without a date of the answer is compared with the clock", async (t) => {
  const { url } = await serve(t, { status: 503, headers: { "retry-after": dateAt(NOW + 9000) } }, OK);
  const { client, waits } = clientWith({ random: () => 0 });
  assert.equal((await client.call(url)).status, 200);
  assert.deepEqual(waits, [9000]);
});

test("without Retry-After the backoff doubles up to its bound", async (t) => {
  const { url, seen } = await serve(t, { status: 503 });
  const { client, waits } = clientWith({ backoffMaxMs: 400 });
  const { status, gaveUp } = await client.call(url);
  assert.deepEqual(waits, [50, 100, 200, 200]);
  assert.deepEqual([status, gaveUp], [503, "5 attempts were refused"]);
  assert.deepEqual(seen, [undefined, "1", "2", "3", "4"]);
});

test("jitter is full", async (t) => {
  const { url } = await serve(t, { status: 503 }, { status: 503 }, OK);
  const draws = [0, 0.999];
  const { client, waits } = clientWith({ random: () => draws.shift() });
  await client.call(url);
  assert.deepEqual(waits.map(Math.round), [200]);
});

test("an unreadable Retry-After counts as absent", async (t) => {
  for (const value of ["soon", "-1", "1.5", ""]) {
    const { url } = await serve(t, { status: 429, headers: { "retry-after": value } }, OK);
    const { client, waits } = clientWith();
    await client.call(url);
    assert.deepEqual(waits, [50], value);
  }
});

test("a wait beyond the patience of the caller is not begun", async (t) => {
  const { url, seen } = await serve(t, { status: 429, headers: { "retry-after": "3600" } });
  const { client, waits } = clientWith({ patienceMs: 5000 });
  const { gaveUp } = await client.call(url);
  assert.deepEqual([waits, seen], [[], [undefined]]);
  assert.match(gaveUp, /3600\.1 s away/);
});

test("patience is for all waits of a call together", async (t) => {
  const { url } = await serve(t, { status: 429, headers: { "retry-after": "3" } });
  const { client, waits } = clientWith({ patienceMs: 7000, random: () => 0 });
  await client.call(url);
  assert.deepEqual(waits, [3000, 3000]);
});

test("a bad request is not repeated", async (t) => {
  const { url, seen } = await serve(t, { status: 400, headers: { "x-tidegate-reason": "attribute_missing" } });
  const { client } = clientWith();
  const { gaveUp } = await client.call(url);
  assert.deepEqual([seen, gaveUp], [[undefined], "status 400 is not repeated"]);
  assert.deepEqual([client.counts.refused, client.counts.gave_up], [0, 1]);
});

test("never is read from the problem body", async (t) => {
  const body = JSON.stringify({ reason: "cost_exceeds_limit", retry: "never" });
  const { url, seen } = await serve(t, { status: 429, headers: PROBLEM, body });
  const { client, waits } = clientWith();
  const { gaveUp } = await client.call(url);
  assert.deepEqual([seen, waits, gaveUp], [[undefined], [], "the same request is never admitted"]);
});

test("never is read from the header of a gateway", async (t) => {
  for (const reason of ["cost_exceeds_limit", "deadline_unmeetable"]) {
    const { url, seen } = await serve(t, { status: 503, headers: { "x-tidegate-reason": reason } });
    const { client, waits } = clientWith();
    await client.call(url);
    assert.deepEqual([seen, waits], [[undefined], []]);
  }
});

test("a body that is no problem is ignored", async (t) => {
  for (const [headers, body] of [[PROBLEM, "{"], [PROBLEM, "[]"], [PROBLEM, "null"], [{}, '{"retry":"never"}']]) {
    const { url } = await serve(t, { status: 429, headers, body }, OK);
    assert.equal((await clientWith().client.call(url)).status, 200);
  }
});

test("a refused POST is repeated and an unexplained 503 is not", async (t) => {
  const post = { method: "POST", body: "x" };
  const headers = { "x-tidegate-reason": "overload_shed", "retry-after": "1" };
  const refused = await serve(t, { status: 503, headers }, OK);
  assert.equal((await clientWith().client.call(refused.url, post)).status, 200);
  const unexplained = await serve(t, { status: 503 });
  const { gaveUp } = await clientWith().client.call(unexplained.url, post);
  assert.deepEqual([unexplained.seen, gaveUp], [[undefined], "the request may have been processed"]);
});

test("a tenth of the calls may be retries", async (t) => {
  const { url, seen } = await serve(t, { status: 429 });
  const { client } = clientWith({ budget: new RetryBudget({ reserve: 0 }) });
  for (let call = 0; call < 100; call += 1) await client.call(url);
  assert.deepEqual([client.counts.retried, seen.length], [10, 110]);
});

test("the reserve permits retries of the first calls", async (t) => {
  const { url } = await serve(t, { status: 429 });
  const { client } = clientWith({ attemptsMax: 50, budget: new RetryBudget({ reserve: 3 }) });
  const { gaveUp } = await client.call(url);
  assert.deepEqual([client.counts.retried, gaveUp], [3, "the retry budget is empty"]);
});

test("the client slows down when little is left", async (t) => {
  const headers = { "ratelimit-policy": '"a";q=10;w=60', ratelimit: '"a";r=1;t=3' };
  const { url } = await serve(t, { status: 200, headers }, OK);
  const { client, waits } = clientWith();
  await client.call(url);
  assert.deepEqual(waits, []);
  await client.call(url);
  await client.call(url);
  assert.deepEqual([waits, client.counts.refused], [[1500], 0]);
});

test("a pause is bounded", async (t) => {
  const { url } = await serve(t, { status: 200, headers: { ratelimit: '"day";r=0;t=40000' } }, OK);
  const { client, waits } = clientWith();
  await client.call(url);
  await client.call(url);
  assert.deepEqual(waits, [2000]);
});

test("the pause is that of the tightest limit", () => {
  const policy = '"a, b;r=9";q=10;w=1, "c";q=100;w=60, "par";q=4;qu="concurrent-requests"';
  const pauseOf = (ratelimit, policy) => pauseMsOf(new Headers({ ratelimit, ...(policy && { "ratelimit-policy": policy }) }));
  assert.equal(pauseOf('"a, b;r=9";r=1;t=1, "c";r=19;t=40, "par";r=0', policy), 2000);
  assert.equal(pauseOf('"c";r=20;t=40', policy), 0);
  assert.equal(pauseOf('"c";r=1;t=40'), 0);
  assert.equal(pauseOf("nonsense"), 0);
  const parsed = items('"x";q=5;qu="concurrent-requests";w=7, "y";q=1');
  assert.deepEqual(parsed, [["x", { q: 5, w: 7 }], ["y", { q: 1 }]]);
});

test("main prints one line with the counts", async (t) => {
  const { url } = await serve(t, OK);
  const log = t.mock.method(console, "log", () => {});
  assert.equal(await main([url, "3"]), 0);
  const counts = { admitted: 3, refused: 0, retried: 0, gave_up: 0, waited_ms: 0 };
  assert.deepEqual(log.mock.calls.map((call) => JSON.parse(call.arguments[0])), [counts]);
});
