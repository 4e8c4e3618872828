// Postrider for Node: send messages in your own transaction, work messages off, ask and reply, read events, verify webhooks.
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
//
//     const events = new Events("http://127.0.0.1:8026");
//     await events.append({ type: "order.paid", stream: "order-1", payload: { total: 42 } }, 3);   // if it has 3 events
//     for await (const event of events.read("order-1")) console.log(event.version, event.type, event.json());
//
//     await new ActivityWorker("http://127.0.0.1:8026")
//       .activity("charge", async (activity) => ({ receipt: await bank.charge(activity.json(), activity.id) }))   // what the flow gets
//       .run();
//
//     const requests = new Requests("http://127.0.0.1:8026");
//     const price = (await requests.request({ type: "price.ask", payload: { item: 7 } }, { deadline: 10 })).json();
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
  const insert = () => db.prepare(`INSERT INTO "${table}" (${columns.map(([c]) => c).join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`)
    .run(...columns.map(([, value]) => value));
  if (isSet([, m.expectedVersion])) insertExpecting(db, m, id, insert);
  else insert();
  return id;
}

// The insert has the write lock, so the version that it got is compared, and not one that was read before.
function insertExpecting(db, m, id, insert) {
  const version = () => db.prepare("SELECT version FROM postrider_event WHERE stream = ? AND id = ?").get(m.stream, id.toLowerCase())?.version;
  // Who reads first cannot write when somebody else wrote meanwhile, and no waiting helps: so this writes first, nothing.
  db.exec("DELETE FROM postrider_event WHERE 0");
  if (version() !== undefined) return; // the same send again
  db.exec("SAVEPOINT postrider_expect");
  try {
    insert();
    const before = Number(version()) - 1;
    if (before !== m.expectedVersion)
      throw new VersionConflict(`stream "${m.stream}" is at version ${before}, not ${m.expectedVersion}`, m.expectedVersion, before);
  } catch (error) {
    db.exec("ROLLBACK TO postrider_expect");
    throw error;
  } finally {
    db.exec("RELEASE postrider_expect");
  }
}

async function sendPostgres(client, m, id, schema) {
  const body = content(m.payload);
  const entries = [
    ["type", m.type, "text"], ["stream", m.stream, "text"], ["destination", m.destination, "text"], ["id", id, "uuid"],
    ["headers", m.headers && JSON.stringify(m.headers), "jsonb"], ["box", m.box, "text"],
    ["due", time(m.due), "timestamptz"], ["expires", time(m.expires), "timestamptz"], ["event", m.event, "boolean"],
    ["expected_version", m.expectedVersion, "bigint"],
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
  if (isSet([, message.expectedVersion]) && !(message.event && message.stream))
    throw new TypeError("expectedVersion is only for events: event: true, and a stream");
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
  constructor(reason, error = "", { code, retryAfter, releaseFollowers } = {}) {
    super(error || reason);
    Object.assign(this, { name: "Fail", reason, code, retryAfter, releaseFollowers });
  }
}

class Refused extends Error {} // no use to try again

const bytes = (m) => (m.payload_base64 !== undefined ? Buffer.from(m.payload_base64, "base64") : Buffer.from(m.payload ?? ""));

function received(claim) {
  const m = claim.message;
  const payload = bytes(m);
  return {
    id: m.id, type: m.type, attempt: claim.attempt, payload, stream: m.stream, headers: m.headers ?? {}, fields: m,
    json: () => JSON.parse(payload.toString()), text: () => payload.toString(), reply: (message) => replyTo(m, message),
  };
}

// For the handler to return: it is stored with the completion, once.
function replyTo(request, message) {
  const to = request.headers?.["postrider-reply-to"];
  if (to === undefined)
    throw new TypeError(`nobody waits for a reply to message ${request.id}: it has no header postrider-reply-to`);
  return {
    ...message, destination: to || undefined, correlationId: request.id, causationId: request.id,
    headers: { ...message.headers, "postrider-reply": request.id },
  };
}

function effect(m) {
  const body = content(m.payload);
  return Object.fromEntries([
    ["box", m.box ?? "outbox"], ["type", m.type], ["stream", m.stream], ["destination", m.destination], ["id", m.id],
    ["headers", m.headers], ["due_at", time(m.due)?.toISOString()], ["expires_at", time(m.expires)?.toISOString()], ...texts(m),
    Buffer.isBuffer(body) ? ["payload_base64", body.toString("base64")] : ["payload_text", body],
    ["event", m.event || null], ["expected_version", m.expectedVersion],
  ].filter(isSet));
}

// The error of an answer; empty where it is not the API that answers.
function refusal(text) {
  try {
    return JSON.parse(text).error ?? {};
  } catch {
    return {};
  }
}

// One request; an Error may be tried again, after Refused that does not help.
async function ask(url, headers, path, body, signal, method = body === undefined ? "GET" : "POST") {
  const response = await fetch(new URL(path, url), {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal,
  });
  if ([200, 201, 202].includes(response.status)) return response.json();
  const error = refusal(await response.text());
  const reason = error.message ?? `${response.status} ${response.statusText} to ${path}; is this the address of http.listen?`;
  const said = `${url.host}: ${reason}`;
  if ([429, 500, 502, 503, 504].includes(response.status)) throw new Error(said);
  if (error.code === "version_conflict") throw new VersionConflict(error.message, error.expected_version, error.version);
  throw Object.assign(new Refused(error.hint ? `${said}; ${error.hint}` : said), { code: error.code });
}

function daemonUrl(text) {
  if (!/^https?:\/\/[^/]/.test(text)) throw new TypeError(`url must be http://HOST:PORT or https://HOST:PORT, not ${text}`);
  return new URL(text);
}

// Says each trouble with the daemon once, however many requests and attempts meet it.
class Troubles {
  #host; #log;
  #lasting = "";

  constructor(url, log) {
    this.#host = url.host;
    this.#log = log;
  }

  // A request failed and is tried again.
  met(trouble) {
    const cause = trouble.cause ?? trouble; // fetch says only that it failed; its cause can be several errors, one per address
    const text = cause.code === "ECONNREFUSED"
      ? `${this.#host}: nothing listens there; start postrider run with this address in http.listen` : cause.message || trouble.message;
    if (text === this.#lasting) return;
    this.#lasting = text;
    this.#log(`${text.includes(this.#host) ? text : `${this.#host}: ${text}`}; trying again until it is over`);
  }

  // What a request answers; it ends the trouble.
  async watch(request) {
    const answer = await request;
    if (this.#lasting) this.#log(`${this.#host}: it answers again`);
    this.#lasting = "";
    return answer;
  }
}

const requestHeaders = (token) =>
  ({ "Content-Type": "application/json", "X-Postrider": "1", ...(token && { Authorization: `Bearer ${token}` }) });

// ---- Events -----------------------------------------------------------------------------------

/** The stream of an event is at another version than expected: read it again before you retry. */
export class VersionConflict extends Error {
  constructor(text, expected, version) {
    super(text);
    Object.assign(this, { name: "VersionConflict", expected, version });
  }
}

function eventOf(e) {
  const payload = bytes(e);
  return {
    stream: e.stream, version: e.version, place: e.place ?? 0, id: e.id, type: e.type, payload, headers: e.headers ?? {},
    createdAt: e.created_at, json: () => JSON.parse(payload.toString()),
  };
}

/** The event store of a daemon: append, read, follow, project. Requests reject when the daemon is away: try again; tail() and project() do. */
export class Events {
  #url; #headers; #wait; #page; #troubles;

  constructor(url, { token, wait = 20, page = 500, log = console.warn } = {}) {
    this.#url = daemonUrl(url);
    this.#headers = requestHeaders(token);
    this.#wait = wait;
    this.#page = page;
    this.#troubles = new Troubles(this.#url, log);
  }

  #ask(path, body) {
    return this.#troubles.watch(ask(this.#url, this.#headers, path, body, AbortSignal.timeout((this.#wait + 40) * 1000)));
  }

  /** Stores an event and sends its message; the version that it got comes back. Rejects with VersionConflict. */
  async append(message, expectedVersion = message.expectedVersion) {
    const { box, ...body } = effect({ ...message, event: true, expectedVersion });
    return (await this.#ask(`/v1/events?box=${box}`, body)).version;
  }

  /** The events of a stream from a version on. */
  async *read(stream, fromVersion = 1) {
    for (let more = true, from = fromVersion; more;) {
      const page = await this.#ask(`/v1/events?stream=${encodeURIComponent(stream)}&from=${from}&limit=${this.#page}`);
      yield* page.events.map(eventOf);
      from = page.next + 1;
      more = page.more;
    }
  }

  /** All events behind a place, in their order. */
  async *readAll(after = 0) {
    for (let more = true; more;) {
      const page = await this.#ask(`/v1/events?after=${after}&limit=${this.#page}`);
      yield* page.events.map(eventOf);
      after = page.next;
      more = page.more;
    }
  }

  /** All events behind a place, and those that come: it never ends. While the daemon is away it tries again. */
  async *tail(after = 0) {
    for (let pause = 200; ;) {
      let page;
      try {
        page = await this.#ask(`/v1/events?after=${after}&limit=${this.#page}&wait=${this.#wait}s`);
      } catch (trouble) {
        pause = await this.#rest(trouble, pause);
        continue;
      }
      pause = 200;
      yield* page.events.map(eventOf);
      after = page.next;
    }
  }

  /** The daemon is away: waits; how long the next time. */
  async #rest(trouble, pause) {
    if (trouble instanceof Refused) throw trouble;
    this.#troubles.met(trouble);
    await new Promise((resolve) => setTimeout(resolve, pause));
    return Math.min(pause * 2, 30000);
  }

  /** The latest snapshot of a stream; go on with read(stream, version + 1). */
  async snapshot(stream) {
    try {
      const s = await this.#ask(`/v1/snapshots?stream=${encodeURIComponent(stream)}`);
      return { version: s.version, data: bytes(s) };
    } catch (error) {
      if (error.code === "not_found") return undefined;
      throw error;
    }
  }

  /** False: there is a later one, which stays. */
  async saveSnapshot(stream, version, data) {
    const body = content(data) ?? "";
    const coded = Buffer.isBuffer(body) ? { payload_base64: body.toString("base64") } : { payload_text: body };
    return (await this.#ask("/v1/snapshots", { stream, version, ...coded })).saved;
  }

  /**
   * Hands the events behind the position of a subscription to the handler, batch by batch, until the signal is aborted. One worker at
   * a time has it. When the handler returns, the position moves; when it throws, it does not, and this rejects.
   */
  async project(subscription, handler, { worker = `node/${uuid7().slice(-8)}`, batch = 100, lease = 30, signal } = {}) {
    const path = `/v1/subscriptions/${encodeURIComponent(subscription)}/`;
    const wish = { worker, max: batch, lease: `${lease}s`, wait: `${Math.min(this.#wait, Math.floor(lease / 2) || 1)}s` };
    let fence = 0, done = 0, pause = 200; // done: the place of what was handled and is not acknowledged
    while (!signal?.aborted) {
      let claim;
      try {
        if (done > 0) await this.#ask(`${path}acknowledge`, { fence, position: done, lease: wish.lease });
        done = 0;
        claim = await this.#ask(`${path}claim`, { ...wish, fence });
      } catch (trouble) {
        pause = await this.#rest(trouble, pause);
        continue;
      }
      pause = 200;
      fence = claim.held_by === null ? claim.fence : 0;
      if (claim.events.length === 0) continue;
      await handler(claim.events.map(eventOf));
      done = claim.events.at(-1).place;
    }
    if (done > 0) await this.#ask(`${path}acknowledge`, { fence, position: done });
    if (fence > 0) await this.#ask(`${path}release`, { fence });
  }
}

// ---- Flows ------------------------------------------------------------------------------------

/** It failed or was cancelled; flow says how. */
export class FlowFailed extends Error {
  constructor(flow) {
    super(`flow ${flow.id} ${flow.state}: ${flow.error?.message ?? ""}`);
    Object.assign(this, { name: "FlowFailed", flow });
  }
}

function flowOf(f) {
  const output = f.output_base64 !== undefined ? Buffer.from(f.output_base64, "base64") : Buffer.from(f.output ?? "");
  return {
    id: f.id, name: f.name, version: f.version, execution: f.execution, state: f.state, output, error: f.error ?? undefined,
    customStatus: f.custom_status ?? undefined, statusNumber: f.status_number, fields: f, json: () => JSON.parse(output.toString()),
  };
}

function flowData(name, payload) {
  const body = content(payload);
  if (body === undefined || body === null) return {};
  return Buffer.isBuffer(body) ? { [`${name}_base64`]: body.toString("base64") } : { [name]: body };
}

/** The flows of a daemon: start, tell, wait, ask. An error with code "not_found": there is no such flow. */
export class Flows {
  #url; #headers; #wait;

  constructor(url, { token, wait = 20 } = {}) {
    this.#url = daemonUrl(url);
    this.#headers = requestHeaders(token);
    this.#wait = wait;
  }

  #ask(path, body, method) {
    return ask(this.#url, this.#headers, `/v1/flows${path}`, body, AbortSignal.timeout((this.#wait + 40) * 1000), method);
  }

  /** The id of the flow comes back. One that exists is left alone; restart restarts one that has ended. */
  async start(name, input, { id = uuid7(), version, restart } = {}) {
    return (await this.#ask("", { name, id, version, restart, ...flowData("input", input) })).id;
  }

  async #tell(id, verb, name, data, message) {
    await this.#ask(`/${encodeURIComponent(id)}/${verb}`, { name, message, ...flowData("data", data) });
  }

  /** message: an id, so that a repeated call raises it once. */
  raise(id, event, data, { message = uuid7() } = {}) {
    return this.#tell(id, "raise", event, data, message);
  }

  send(id, mailbox, data, { message = uuid7() } = {}) {
    return this.#tell(id, "send", mailbox, data, message);
  }

  async cancel(id, why = "") {
    await this.#ask(`/${encodeURIComponent(id)}/cancel`, { why });
  }

  async get(id) {
    return flowOf(await this.#ask(`/${encodeURIComponent(id)}`));
  }

  async history(id) {
    return (await this.#ask(`/${encodeURIComponent(id)}/history`)).events;
  }

  /** Until it has ended. Rejects with FlowFailed, or after timeout seconds. */
  async wait(id, { timeout } = {}) {
    const flow = await this.#waitFor(id, "", timeout);
    if (flow.state !== "completed") throw new FlowFailed(flow);
    return flow;
  }

  /** Until its custom status has changed since that number, or it has ended. */
  waitStatus(id, afterNumber = 0, { timeout } = {}) {
    return this.#waitFor(id, `&after_number=${afterNumber}`, timeout);
  }

  async #waitFor(id, after, timeout = Infinity) {
    for (const end = Date.now() + timeout * 1000; ;) {
      const left = Math.round(Math.min(this.#wait * 1000, Math.max(end - Date.now(), 0)));
      const answer = await this.#ask(`/${encodeURIComponent(id)}/wait?timeout=${left}ms${after}`);
      if (!answer.timeout) return flowOf(answer);
      if (Date.now() >= end) throw new Error(`flow ${id} is still running`);
    }
  }

  async delete(id, { force = false } = {}) {
    await this.#ask(`/${encodeURIComponent(id)}${force ? "?force=1" : ""}`, undefined, "DELETE");
  }
}

// ---- Requests ---------------------------------------------------------------------------------

/** There is no reply yet. The request goes on: resume(error.id) waits on, also in another process. */
export class RequestTimeout extends Error {
  constructor(id, options) {
    super(`there is no reply to request ${id} yet`, options);
    Object.assign(this, { name: "RequestTimeout", id });
  }
}

/** There will be no reply. state is "dead", "gone" (discarded or expired), or "unknown" (never sent, or long ago). */
export class NoReply extends Error {
  constructor(id, state) {
    super(`there will be no reply to request ${id}: it is ${state}`);
    Object.assign(this, { name: "NoReply", id, state });
  }
}

function replyOf(r) {
  const payload = bytes(r);
  return {
    id: r.id, type: r.type, payload, headers: r.headers ?? {}, fields: r,
    json: () => JSON.parse(payload.toString()), text: () => payload.toString(),
  };
}

/** Messages that wait for a reply. Both are stored: nothing is lost when the caller, the daemon or the worker restarts. */
export class Requests {
  #url; #headers; #wait; #troubles;

  constructor(url, { token, wait = 20, log = console.warn } = {}) {
    this.#url = daemonUrl(url);
    this.#headers = requestHeaders(token);
    this.#wait = wait;
    this.#troubles = new Troubles(this.#url, log);
  }

  /** Stores a request and waits for its reply, at most deadline seconds. Rejects with RequestTimeout and NoReply. */
  request(message, { deadline = 20, replyTo: reply_to } = {}) {
    const id = message.id ?? uuid7();
    return this.#await(id, { ...effect({ ...message, id }), ...(reply_to && { reply_to }) }, deadline);
  }

  /** Waits for the reply to a request that was sent before, by any process. */
  resume(id, { deadline = 20 } = {}) {
    return this.#await(id, undefined, deadline);
  }

  async #await(id, body, deadline) {
    const end = performance.now() + deadline * 1000;
    let pause = 50, unsent = body !== undefined, send = unsent; // unsent: as far as this process knows
    for (;;) {
      const left = Math.max(end - performance.now(), 0);
      const wait = `${Math.floor(Math.min(left, this.#wait * 1000))}ms`;
      let answer;
      try {
        answer = await (send ? this.#ask("/v1/requests", { ...body, wait }) : this.#ask(`/v1/requests/${encodeURIComponent(id)}?wait=${wait}`));
      } catch (trouble) {
        if (trouble.code === "not_found" && !unsent) throw new NoReply(id, "unknown");
        if (trouble instanceof Refused && trouble.code !== "not_found") throw trouble;
        send = trouble.code === "not_found"; // else it may have been stored: look first
        if (send) continue;
        if (left <= pause) throw new RequestTimeout(id, { cause: trouble });
        this.#troubles.met(trouble);
        await new Promise((resolve) => setTimeout(resolve, pause));
        pause = Math.min(pause * 2, 5000);
        continue;
      }
      unsent = send = false;
      if (answer.state === "replied") return replyOf(answer.reply);
      if (answer.state !== "waiting") throw new NoReply(id, answer.state);
      if (left <= 0) throw new RequestTimeout(id);
    }
  }

  #ask(path, body) {
    return this.#troubles.watch(ask(this.#url, this.#headers, path, body, AbortSignal.timeout((this.#wait + 40) * 1000)));
  }
}

// ---- Workers ----------------------------------------------------------------------------------

const glob = (pattern) =>
  new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`, "s");

/**
 * Claims messages from a daemon (an endpoint with url: "pull:") and hands them to handlers. A handler that returns has completed
 * its message; the messages it returns are stored in the same transaction. One that throws has failed it. Claims are
 * renewed while a handler runs. A message can come twice when a worker dies: use message.id where that matters.
 *
 * types: patterns of the types that this worker asks for; true: those that it has handlers for. Without it the worker gets
 * messages of all types, and fails those that it has no handler for.
 */
export class Worker {
  #url; #wish; #headers; #concurrency; #wait; #log; #types; #troubles;
  #patterns = [];
  #handlers = [];
  #call = async (claim, handler) => {
    const messages = (await handler(received(claim))) ?? [];
    if (!Array.isArray(messages)) throw new TypeError("a handler returns nothing or an array of messages");
    const effects = messages.map(effect);
    return effects.length > 0 ? { effects } : {};
  };
  #stopping = new AbortController();
  #fault;

  constructor(url, { box = "inbox", endpoint, token, tags, types, call, concurrency = 10, wait = 20, log = console.warn } = {}) {
    this.#url = daemonUrl(url);
    this.#wish = { box, wait: `${wait}s`, ...(endpoint && { endpoint }), ...(tags && { tags }) };
    if (types !== undefined && typeof types !== "boolean" && !Array.isArray(types))
      throw new TypeError("types: must be an array of patterns, or true");
    this.#types = types;
    this.#call = call ?? this.#call;
    this.#headers = requestHeaders(token);
    this.#concurrency = concurrency;
    this.#wait = wait;
    this.#log = log;
    this.#troubles = new Troubles(this.#url, log);
  }

  handle(pattern, handler) {
    this.#handlers.push([glob(pattern), handler]);
    this.#patterns.push(pattern);
    return this;
  }

  stop() {
    this.#stopping.abort();
  }

  async run() {
    const busy = new Set();
    if (this.#types) this.#wish.types = this.#types === true ? this.#patterns : this.#types;
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
      const claims = answer?.claims ?? [], now = performance.now(), wall = Date.now();
      for (const claim of claims) claim.ends = now + (new Date(claim.expires_at) - wall);
      return claims;
    } catch (fault) {
      this.#end(fault);
      return [];
    }
  }

  async #ask(path, body, signal) {
    const limit = AbortSignal.timeout((this.#wait + 40) * 1000);
    const either = signal ? AbortSignal.any?.([signal, limit]) ?? signal : limit;
    return this.#troubles.watch(ask(this.#url, this.#headers, path, body, either));
  }

  // Again and again, more and more slowly, until it is answered; undefined: stopped meanwhile.
  async #persist(path, body, signal) {
    for (let pause = 200; ; pause = Math.min(pause * 2, 30000)) {
      try {
        return await this.#ask(path, body, signal);
      } catch (trouble) {
        if (trouble instanceof Refused) throw trouble;
        if (this.#stopped && (signal || pause > 1000)) return undefined;
        this.#troubles.met(trouble);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #handle(claim) {
    if (performance.now() > claim.ends) { // a handler before it kept the process busy, and nothing was renewed
      this.#log(`message ${claim.message.id}: its claim has ended before it was handled; it comes again`);
      return;
    }
    const third = Math.max((claim.ends - performance.now()) / 3, 50);
    const lost = new AbortController(); // the claim has ended without us
    const renewal = setInterval(() => this.#ask("/v1/claims/renew", { claims: [{ token: claim.token }] })
      .then((answer) => answer.results[0].result === "ok" || lost.abort())
      .catch((trouble) => this.#troubles.met(trouble)), third);
    try {
      // Stopped before it began: nothing is counted.
      const [verb, more] = this.#stopped ? ["release", {}] : await this.#outcome(claim, lost.signal);
      const answer = await this.#verdict(verb, { token: claim.token, ...more });
      const { result, error } = answer?.results[0] ?? { result: "unknown" };
      if (result === "conflict") this.#log(`message ${claim.message.id}: ${error}; it comes again`);
      else if (result !== "ok") this.#log(`message ${claim.message.id}: ${verb} was not recorded (${result}); it may come again`);
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

  async #outcome(claim, signal) {
    const { type } = claim.message;
    const handler = this.#handlers.find(([pattern]) => pattern.test(type))?.[1];
    try {
      if (!handler) throw new Fail("destination_missing", `this worker has no handler for messages of type ${type}`);
      return ["complete", await this.#call(claim, handler, signal)];
    } catch (error) {
      if (error instanceof ActivityFailed)
        return ["fail", { reason: "handler_exception", error: error.message, retryable: error.retryable,
          ...(error.retryAfter && { retry_after: error.retryAfter }) }];
      if (!handler || !(error instanceof Fail)) this.#log(`message ${claim.message.id}: ${error?.stack ?? error}`);
      if (!(error instanceof Fail)) return ["fail", { reason: "handler_exception", error: `${error?.name}: ${error?.message}` }];
      const more = { reason: error.reason, error: error.message, code: error.code, retry_after: error.retryAfter,
        release_followers: error.releaseFollowers };
      return ["fail", Object.fromEntries(Object.entries(more).filter(([, value]) => value))];
    }
  }
}

/**
 * Thrown by an activity: it failed, and is tried again by its retry policy. retryable false: its flow gets the error at once.
 * retryAfter "30s": not before that.
 */
export class ActivityFailed extends Error {
  constructor(error, { retryable = true, retryAfter } = {}) {
    super(error);
    Object.assign(this, { name: "ActivityFailed", retryable, retryAfter });
  }
}

async function doActivity(claim, handler, signal) {
  const { message } = claim, { headers } = message, payload = bytes(message);
  const output = await handler({
    id: message.id, name: message.type, attempt: claim.attempt, payload, flow: headers.flow, execution: headers.execution,
    number: headers.task, tag: headers.tag, session: message.stream ?? undefined, signal,
    json: () => JSON.parse(payload.toString()), text: () => payload.toString(),
  });
  return flowData("output", output);
}

/**
 * Does activities of flows: the box activities has a route to an endpoint with url: "pull:". What a function returns is what its
 * flow gets: text, bytes, or anything that can be JSON. One that throws has failed: it is tried again by the retry policy that the
 * flow gave it, then its flow gets the error. tags: what this worker offers; an activity with a tag comes only to workers that offer it.
 */
export class ActivityWorker extends Worker {
  constructor(url, { tags = [], box = "activities", ...options } = {}) {
    super(url, { ...options, box, tags, call: doActivity });
  }

  activity(name, handler) {
    return this.handle(name, handler);
  }
}
