// Postrider for Node: send messages in your own transaction, work messages off, verify webhooks.
//
// One file, no dependencies, Node 18 or newer.
//
//     import { send, Worker } from "postrider";
//
//     await client.query("BEGIN");                       // pg; or node:sqlite, without await
//     await client.query("INSERT INTO orders ...");
//     await send(client, { type: "order.created", stream: "order-1", payload: { total: 42 } });
//     await client.query("COMMIT");
//
//     await new Worker("http://127.0.0.1:8026")
//       .handle("order.*", async (message) => [{ type: "order.billed", payload: { order: message.json().id } }])
//       .run();
import crypto from "node:crypto";

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;
const TEXTS = {
  source: "source", subject: "subject", content_type: "contentType", correlation_id: "correlationId",
  causation_id: "causationId", traceparent: "traceparent", tracestate: "tracestate",
};

/** An id that sorts by the time at which it was made. */
export function uuid7() {
  const bytes = crypto.randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function content(payload) {
  if (payload === undefined || payload === null || typeof payload === "string") return payload ?? null;
  if (payload instanceof Uint8Array) return Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  return JSON.stringify(payload);
}

function time(when) {
  if (when === undefined || when === null) return null;
  return typeof when === "number" ? new Date(Date.now() + when) : when;
}

function name(word, what) {
  if (!NAME.test(word)) throw new TypeError(`${what} "${word}" must be letters, digits and _, at most 63`);
  return word;
}

const isSet = ([, value]) => value !== null && value !== undefined;
const texts = (m) => Object.entries(TEXTS).map(([column, member]) => [column, m[member]]);

// ---- Sending ----------------------------------------------------------------------------------

function sendSqlite(db, m, id, table) {
  const micros = (when) => (when === null ? null : BigInt(when.getTime()) * 1000n);
  const columns = [
    ["id", Buffer.from(id.replaceAll("-", ""), "hex")], ["type", m.type], ["payload", content(m.payload)],
    ["stream", m.stream], ["destination", m.destination], ["headers", m.headers && JSON.stringify(m.headers)],
    ["due_at", micros(time(m.due))], ["expires_at", micros(time(m.expires))], ["event", m.event ? 1 : null], ...texts(m),
  ].filter(isSet);
  db.prepare(`INSERT INTO "${table}" (${columns.map(([c]) => c).join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`)
    .run(...columns.map(([, value]) => value));
  return id;
}

async function sendPostgres(client, m, id, schema) {
  const body = content(m.payload);
  const entries = [
    ["type", m.type, "text"], ["stream", m.stream, "text"], ["destination", m.destination, "text"], ["id", id, "uuid"],
    ["headers", m.headers && JSON.stringify(m.headers), "jsonb"], ["box", m.box, "text"],
    ["due", time(m.due), "timestamptz"], ["expires", time(m.expires), "timestamptz"], ["event", m.event, "boolean"],
    ...texts(m).map(([column, value]) => [column, value, "text"]),
  ].filter(isSet);
  entries.push(["payload", body, Buffer.isBuffer(body) ? "bytea" : "text"]);
  const list = entries.map(([argument, , type], i) => `${argument} => $${i + 1}::${type}`).join(", ");
  await client.query(`SELECT "${schema}".send(${list})`, entries.map(([, value]) => value));
  return id;
}

/**
 * Store a message through the caller's connection, in its open transaction. Nothing is committed here: the message is
 * delivered if and only if the transaction commits. With pg it returns a promise of the id, with node:sqlite the id.
 */
export function send(connection, message, options = {}) {
  if (!message.type) throw new TypeError("a message needs a type such as order.created");
  const id = message.id ?? uuid7();
  if (typeof connection.prepare === "function")
    return sendSqlite(connection, message, id, name(options.table ?? message.box ?? "outbox", "table"));
  if (typeof connection.query === "function")
    return sendPostgres(connection, message, id, name(options.schema ?? "postrider", "schema"));
  throw new TypeError("this is neither a client of pg nor a database of node:sqlite");
}

// ---- Webhooks ---------------------------------------------------------------------------------

/** The request is not from who it says it is, is too old, or has no signature. */
export class WebhookError extends Error {}

/** Checks the signature of a Standard Webhooks request; returns the webhook-id, by which a repeated one is recognized. */
export function verifyWebhook(secret, headers, body, tolerance = 300) {
  const given = Object.fromEntries(Object.entries(headers).map(([key, value]) => [key.toLowerCase(), String(value)]));
  for (const header of ["webhook-id", "webhook-timestamp", "webhook-signature"])
    if (given[header] === undefined || given[header] === "undefined") throw new WebhookError(`the header ${header} is missing`);
  const id = given["webhook-id"], stamp = given["webhook-timestamp"];
  if (!/^\d+$/.test(stamp) || Math.abs(Date.now() / 1000 - Number(stamp)) > tolerance)
    throw new WebhookError(`the timestamp ${stamp} is more than ${tolerance} seconds away from now`);
  for (const one of [secret].flat()) {
    const key = Buffer.from(one.replace(/^whsec_/, ""), "base64");
    const expected = crypto.createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest();
    for (const signature of given["webhook-signature"].split(" ")) {
      const [version, value] = signature.split(",");
      const bytes = Buffer.from(value ?? "", "base64");
      if (version === "v1" && bytes.length === expected.length && crypto.timingSafeEqual(bytes, expected)) return id;
    }
  }
  throw new WebhookError("no signature is by this secret");
}

// ---- Working ----------------------------------------------------------------------------------

/** Thrown by a handler: the message failed for this reason (validation_failure, dependency_failure, ...). */
export class Fail extends Error {
  constructor(reason, error = "", { code, retryAfter } = {}) {
    super(error || reason);
    Object.assign(this, { name: "Fail", reason, code, retryAfter });
  }
}

class Refused extends Error {} // no use to try again

function received(claim) {
  const m = claim.message;
  const payload = m.payload_base64 !== undefined ? Buffer.from(m.payload_base64, "base64") : Buffer.from(m.payload ?? "");
  return {
    id: m.id, type: m.type, attempt: claim.attempt, payload, stream: m.stream, headers: m.headers ?? {}, fields: m,
    json: () => JSON.parse(payload.toString()), text: () => payload.toString(),
  };
}

function effect(m) {
  const body = content(m.payload);
  return Object.fromEntries([
    ["box", m.box ?? "outbox"], ["type", m.type], ["stream", m.stream], ["destination", m.destination], ["id", m.id],
    ["headers", m.headers], ["due_at", time(m.due)?.toISOString()], ["expires_at", time(m.expires)?.toISOString()], ...texts(m),
    Buffer.isBuffer(body) ? ["payload_base64", body.toString("base64")] : ["payload_text", body],
  ].filter(isSet));
}

const glob = (pattern) =>
  new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`, "s");

/**
 * Claims messages from a daemon (an endpoint with url: "pull:") and hands them to handlers. A handler that returns has completed
 * its message; the messages it returns are stored in the same transaction. One that throws has failed it. Claims are
 * renewed while a handler runs. A message can come twice when a worker dies: use message.id where that matters.
 */
export class Worker {
  #url; #wish; #headers; #concurrency; #wait; #log;
  #handlers = [];
  #stopping = new AbortController();
  #fault;

  constructor(url, { box = "inbox", endpoint, token, concurrency = 10, wait = 20, log = console.warn } = {}) {
    this.#url = new URL(url);
    this.#wish = { box, wait: `${wait}s`, ...(endpoint && { endpoint }) };
    this.#headers = { "Content-Type": "application/json", "X-Postrider": "1", ...(token && { Authorization: `Bearer ${token}` }) };
    this.#concurrency = concurrency;
    this.#wait = wait;
    this.#log = log;
  }

  handle(pattern, handler) {
    this.#handlers.push([glob(pattern), handler]);
    return this;
  }

  stop() {
    this.#stopping.abort();
  }

  async run() {
    const busy = new Set();
    while (!this.#stopped) {
      const room = this.#concurrency - busy.size;
      if (room <= 0) {
        await Promise.race(busy);
        continue;
      }
      // While something is handled, ask again as soon as it has ended: there is more room then.
      const claims = await this.#claim(room, busy.size > 0 ? "1s" : this.#wish.wait);
      for (const claim of claims) {
        const one = this.#handle(claim).catch((fault) => this.#end(fault)).finally(() => busy.delete(one));
        busy.add(one);
      }
    }
    await Promise.all(busy);
    if (this.#fault) throw this.#fault;
  }

  get #stopped() {
    return this.#stopping.signal.aborted;
  }

  #end(fault) {
    this.#fault ??= fault;
    this.stop();
  }

  async #claim(max, wait) {
    try {
      const answer = await this.#persist("/v1/claims", { ...this.#wish, max, wait }, this.#stopping.signal);
      return answer?.claims ?? [];
    } catch (fault) {
      this.#end(fault);
      return [];
    }
  }

  async #ask(path, body, signal) {
    const limit = AbortSignal.timeout((this.#wait + 40) * 1000);
    const response = await fetch(new URL(path, this.#url), {
      method: "POST", headers: this.#headers, body: JSON.stringify(body),
      signal: signal ? AbortSignal.any?.([signal, limit]) ?? signal : limit,
    });
    if (response.status === 200) return response.json();
    const text = `${path}: ${response.status} ${(await response.text()).slice(0, 500).trim()}`;
    throw [429, 500, 502, 503, 504].includes(response.status) ? new Error(text) : new Refused(text);
  }

  // Again and again, more and more slowly, until it is answered; undefined: stopped meanwhile.
  async #persist(path, body, signal) {
    for (let pause = 200; ; pause = Math.min(pause * 2, 30000)) {
      try {
        return await this.#ask(path, body, signal);
      } catch (trouble) {
        if (trouble instanceof Refused) throw trouble;
        if (this.#stopped && (signal || pause > 1000)) return undefined;
        this.#log(`${path}: ${trouble.cause?.message ?? trouble.message}; trying again in ${pause} ms`);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #handle(claim) {
    const third = Math.max((new Date(claim.expires_at) - Date.now()) / 3, 50);
    const renewal = setInterval(() => this.#ask("/v1/claims/renew", { claims: [{ token: claim.token }] })
      .catch((trouble) => this.#log(`renew: ${trouble.message}`)), third);
    try {
      // Stopped before it began: nothing is counted.
      const [verb, more] = this.#stopped ? ["release", {}] : await this.#outcome(received(claim));
      const answer = await this.#verdict(verb, { token: claim.token, ...more });
      const result = answer?.results[0].result ?? "unknown";
      if (result !== "ok") this.#log(`message ${claim.message.id}: ${verb} was not recorded (${result}); it may come again`);
    } finally {
      clearInterval(renewal);
    }
  }

  async #verdict(verb, verdict) {
    try {
      return await this.#persist(`/v1/claims/${verb}`, { claims: [verdict] });
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      // What the handler returned cannot be stored: that is its failure.
      const error = refused.message.replace(/[^\x20-\x7e]/g, "?").slice(0, 500);
      return this.#persist("/v1/claims/fail", { claims: [{ token: verdict.token, reason: "handler_exception", error }] });
    }
  }

  async #outcome(message) {
    const handler = this.#handlers.find(([pattern]) => pattern.test(message.type))?.[1];
    try {
      if (!handler) throw new Fail("destination_missing", `this worker has no handler for messages of type ${message.type}`);
      const effects = ((await handler(message)) ?? []).map(effect);
      return ["complete", effects.length > 0 ? { effects } : {}];
    } catch (error) {
      if (!(error instanceof Fail)) return ["fail", { reason: "handler_exception", error: `${error?.name}: ${error?.message}` }];
      const more = { reason: error.reason, error: error.message, code: error.code, retry_after: error.retryAfter };
      return ["fail", Object.fromEntries(Object.entries(more).filter(([, value]) => value))];
    }
  }
}
