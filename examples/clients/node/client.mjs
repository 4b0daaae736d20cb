// A well-behaved HTTP client of a rate-limited API for Node 18 and later, without dependencies.
//
//     node client.mjs URL CALLS
//
// sends CALLS requests one after the other and prints one JSON line: `admitted`, `refused`,
// `retried`, `gave_up` and `waited_ms`. docs/consumers.md explains each rule.

import { pathToFileURL } from "node:url";

// A request refused for one of these reasons is never admitted, however often it is sent.
const NEVER = new Set(["attribute_missing", "cost_exceeds_limit", "deadline_unmeetable"]);
const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);

/** Permits one retry for every ten calls, and `reserve` retries beyond that. */
export class RetryBudget {
  #ratio;
  #reserve;
  #balance;

  constructor({ ratio = 0.1, reserve = 10 } = {}) {
    this.#ratio = ratio;
    this.#reserve = reserve;
    this.#balance = reserve;
  }

  recordCall() {
    // The cap stops a long quiet time from saving up a storm of retries.
    this.#balance = Math.min(this.#balance + this.#ratio, Math.max(this.#reserve, 10));
  }

  take() {
    // The tolerance absorbs the rounding error of ten times 0.1.
    if (this.#balance < 1 - 1e-9) return false;
    this.#balance -= 1;
    return true;
  }
}

/**
 * Sends requests, waits as the server says, and gives up in time.
 *
 * `sleep`, `random` and `now` are arguments so that tests need no real time.
 */
export class Client {
  // The outcomes so far. `admitted` counts calls that ended with a status below 400, `refused`
  // answers with 429 or 503, `retried` requests that repeated an earlier one, `gave_up` other calls.
  counts = { admitted: 0, refused: 0, retried: 0, gave_up: 0, waited_ms: 0 };
  #settings;
  #pauseMs = 0;

  constructor(settings = {}) {
    this.#settings = {
      attemptsMax: 5,
      patienceMs: 30_000,
      backoffBaseMs: 100,
      backoffMaxMs: 10_000,
      pauseMaxMs: 2_000,
      timeoutMs: 10_000,
      budget: new RetryBudget(),
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      random: Math.random,
      now: Date.now,
      ...settings,
    };
  }

  /** Sends one request, and repeats it while the server asks for that. */
  async call(url, { method = "GET", body, headers = {} } = {}) {
    const { attemptsMax, budget, now, pauseMaxMs } = this.#settings;
    let patienceMs = this.#settings.patienceMs;
    budget.recordCall();
    // The previous answer said that little is left: slow down instead of being refused.
    const pauseMs = Math.min(this.#pauseMs, patienceMs);
    this.#pauseMs = 0;
    await this.#wait(pauseMs);
    patienceMs -= pauseMs;
    let answer;
    let ticket;
    let gaveUp = "";
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      answer = await this.#send(url, method, body, headers, attempt, ticket);
      if (answer.status !== 429 && answer.status !== 503) break;
      this.counts.refused += 1;
      const retryAfter = retryAfterMs(answer.headers, now());
      ticket = answer.headers.get("tidegate-ticket");
      // The seconds of tickets are spread already, and each is reserved for its bearer.
      const waitMs = (retryAfter ?? 0) + (ticket ? 0 : this.#backoffMs(attempt));
      if (isNever(answer)) gaveUp = "the same request is never admitted";
      else if (!mayRepeat(method, answer, retryAfter)) gaveUp = "the request may have been processed";
      else if (attempt + 1 === attemptsMax) gaveUp = `${attemptsMax} attempts were refused`;
      else if (waitMs > patienceMs) gaveUp = `the next attempt is ${(waitMs / 1000).toFixed(1)} s away`;
      else if (!ticket && !budget.take()) gaveUp = "the retry budget is empty";
      if (gaveUp) break;
      await this.#wait(waitMs);
      patienceMs -= waitMs;
      this.counts.retried += 1;
    }
    if (answer.status < 400) {
      this.counts.admitted += 1;
      this.#pauseMs = Math.min(pauseMsOf(answer.headers), pauseMaxMs);
    } else {
      this.counts.gave_up += 1;
      gaveUp ||= `status ${answer.status} is not repeated`;
    }
    return { ...answer, gaveUp };
  }

  async #send(url, method, body, headers, attempt, ticket) {
    const sent = new Headers(headers);
    if (attempt > 0) sent.set("tidegate-attempt", String(attempt));
    if (ticket) sent.set("tidegate-ticket", ticket);
    const signal = AbortSignal.timeout(this.#settings.timeoutMs);
    const response = await fetch(url, { method, body, headers: sent, signal });
    return { status: response.status, headers: response.headers, body: await response.text() };
  }

  /** Exponential backoff with full jitter: anything from 0 to a bound that doubles. */
  #backoffMs(attempt) {
    const { backoffBaseMs, backoffMaxMs, random } = this.#settings;
    return random() * Math.min(backoffMaxMs, backoffBaseMs * 2 ** attempt);
  }

  async #wait(ms) {
    if (ms <= 0) return;
    this.counts.waited_ms += Math.round(ms);
    await this.#settings.sleep(ms);
  }
}

/** The milliseconds that `Retry-After` asks for, or undefined if it is absent or unreadable. */
export function retryAfterMs(headers, now) {
  const value = (headers.get("retry-after") ?? "").trim();
  if (/^[0-9]{1,9}$/.test(value)) return Number(value) * 1000;
  const at = httpDate(value);
  if (at === undefined) return undefined;
  // Both dates come from the server, so a wrong clock here does no harm.
  return Math.max(0, at - (httpDate(headers.get("date") ?? "") ?? now));
}

function httpDate(value) {
  const at = /^[A-Z][a-z]+, .* GMT$/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/** Whether the refusal says that waiting is of no use. */
function isNever({ headers, body }) {
  if (NEVER.has(headers.get("x-tidegate-reason"))) return true;
  if (!(headers.get("content-type") ?? "").startsWith("application/problem+json")) return false;
  try {
    const problem = JSON.parse(body);
    return problem?.retry === "never" || NEVER.has(problem?.reason);
  } catch {
    return false;
  }
}

/** Whether repeating is safe: the server refused the request, or the method is idempotent. */
function mayRepeat(method, { status, headers }, retryAfter) {
  const isRefusal = status === 429 || retryAfter !== undefined || headers.has("x-tidegate-reason");
  return isRefusal || IDEMPOTENT.has(method.toUpperCase());
}

/**
 * Milliseconds to wait before the next call, read from `RateLimit` and `RateLimit-Policy`.
 *
 * A limit with less than a fifth left has its remaining units spread over the time until it is
 * full.
 */
export function pauseMsOf(headers) {
  const quotas = new Map(items(headers.get("ratelimit-policy")).map(([name, values]) => [name, values.q ?? 0]));
  let longest = 0;
  for (const [name, { r, t }] of items(headers.get("ratelimit"))) {
    if (r === undefined || t === undefined) continue;
    if (r === 0 || r * 5 < (quotas.get(name) ?? 0)) longest = Math.max(longest, (t * 1000) / (r + 1));
  }
  return longest;
}

/** The items of a list such as `"per-user";r=2;t=1, "per-app";r=4;t=60`. */
export function items(value) {
  const found = [];
  for (const [, name, parameters] of (value ?? "").matchAll(/"((?:[^"\\]|\\.)*)"((?:\s*;[^,"]*(?:"[^"]*")?)*)/g)) {
    const numbers = [...parameters.matchAll(/;\s*([a-z]+)=([0-9]{1,15})/g)];
    found.push([name, Object.fromEntries(numbers.map(([, key, number]) => [key, Number(number)]))]);
  }
  return found;
}

export async function main(args) {
  if (args.length !== 2 || !/^[0-9]+$/.test(args[1])) {
    console.error("usage: client.mjs URL CALLS");
    return 2;
  }
  const client = new Client();
  for (let call = 0; call < Number(args[1]); call += 1) await client.call(args[0]);
  console.log(JSON.stringify(client.counts));
  return client.counts.gave_up === 0 ? 0 : 1;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = await main(process.argv.slice(2));
}
