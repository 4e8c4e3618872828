// webhook.mjs POSTRIDER NPM_FOLDER - what we send by HTTP, in the hands of other people's libraries.
//
// The npm packages cloudevents and standardwebhooks read what a real postrider sends to servers of Node's own:
// HTTP/1.1 and, with a certificate on both sides, HTTP/2.
import { execFileSync } from "node:child_process";
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import path from "node:path";
import { deliverAll, finished, folder, ok, require, runTests, sameEvent, scenarios, sendScenario, start, test } from "./events.mjs";

const { HTTP } = require("cloudevents");
const { Webhook } = require("standardwebhooks");

const key = (n) => "whsec_" + Buffer.alloc(32, n).toString("base64");

// ---- The other sides -----------------------------------------------------------------------------

class Receiver {
  constructor() {
    this.requests = [];
    this.connections = 0;
  }
  take = (request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks);
      this.requests.push({ headers: request.headers, body, path: request.url, version: request.httpVersion, port: request.socket.remotePort,
                           client: request.socket?.getPeerCertificate?.()?.subject?.CN });
      response.statusCode = request.url === "/signed" && this.of("/signed").length === 1 ? 503 : 200; // so that there is a second
      response.end();
    });
  };
  listen(server, event) {
    this.server = server;
    server.keepAliveTimeout = 0; // never: who looks for a new connection is to have had no reason
    server.on(event, () => this.connections++);
    return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server.address().port)));
  }
  of(path) {
    return this.requests.filter((r) => r.path === path);
  }
}

function certificates() {
  const run = (...args) => execFileSync("openssl", args, { cwd: folder, stdio: "ignore" });
  const fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  run("req", "-x509", ...fresh, "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
      "-keyout", "server.key", "-out", "server.pem");
  run("req", "-x509", ...fresh, "-days", "1", "-subj", "/CN=the postrider", "-keyout", "client.key", "-out", "client.pem");
  return (name) => fs.readFileSync(path.join(folder, name));
}

const plain = new Receiver();
const secure = new Receiver();
const plainPort = await plain.listen(http.createServer(plain.take), "connection");
const pem = certificates();
const old = new Receiver();
const oldPort = await old.listen(https.createServer({ key: pem("server.key"), cert: pem("server.pem") }, old.take), "secureConnection");
const securePort = await secure.listen(
  http2.createSecureServer({ allowHTTP1: true, key: pem("server.key"), cert: pem("server.pem"), ca: pem("client.pem"),
                             requestCert: true, rejectUnauthorized: true }, secure.take), "session");

// ---- postrider ------------------------------------------------------------------------------------

fs.writeFileSync(path.join(folder, "new.key"), key(1) + "\n");
fs.writeFileSync(path.join(folder, "old.key"), key(2) + "\n");
const to = (name) => `url: 'http://127.0.0.1:${plainPort}/${name}', allow_networks: [127.0.0.0/8]`;
const tls = `url: 'https://localhost:${securePort}/tls', allow_networks: [127.0.0.0/8], ca: '${folder}/server.pem'`;
fs.writeFileSync(path.join(folder, "postrider.yaml"), `
store: sqlite:${folder}/box.db
endpoints:
  binary: {${to("binary")}}
  structured: {${to("structured")}, envelope: structured}
  batch: {${to("batch")}, envelope: batch, sign: '\${file:new.key}'}
  raw: {${to("raw")}, envelope: raw}
  signed: {${to("signed")}, sign: ['\${file:new.key}', '\${file:old.key}'], retry: [10ms]}
  few: {${to("few")}, concurrency: 4}
  tls: {${tls}, cert: '${folder}/client.pem', key: '${folder}/client.key', sign: '\${file:new.key}'}
  stranger: {${tls}}
  old: {url: 'https://localhost:${oldPort}/old', allow_networks: [127.0.0.0/8], ca: '${folder}/server.pem', concurrency: 3}
  file: {url: 'file:${folder}/audit.jsonl'}
routes:
  - {header: {x-copy: "yes"}, to: [binary, structured]}
`);
// ---- Sentences ------------------------------------------------------------------------------------

const modes = ["binary", "structured", "batch"];

// The binding wants %XX decoded in headers; this version of the package leaves that to its caller.
function decoded(headers) {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, name.startsWith("ce-") ? decodeURIComponent(value) : value]));
}

const text = (r) => ({ headers: r.headers, body: r.body.toString("utf8") });
const ids = {}; // "mode/scenario"

function sendAll() {
  for (const mode of modes) for (const [i, s] of scenarios.entries()) ids[`${mode}/${i}`] = sendScenario(s, mode);
  ids.raw = ok("send", "--type", "x", "--to", "raw", "--data", "{}", "--header", "x-own=1").trim();
  ids.signed = ok("send", "--type", "x", "--to", "signed", "--data", '{"a":"\u20ac"}').trim();
  ids.copy = ok("send", "--type", "copy", "--data", "{}", "--header", "x-copy=yes").trim();
  ids.file = ok("send", "--type", "x", "--to", "file", "--data", '{"a":1}').trim();
  for (let i = 0; i < 60; i++) ok("send", "--type", "many", "--to", ["few", "tls", "old"][i % 3], "--data", `${i}`);
}

for (const [i, s] of scenarios.entries()) {
  test(`binary: ${s.name}`, () => {
    const r = plain.of("/binary").find((q) => q.headers["ce-id"] === ids[`binary/${i}`]);
    const body = Buffer.isBuffer(s.data) ? r.body : r.body.toString("utf8");
    sameEvent(HTTP.toEvent({ headers: decoded(r.headers), body: body.length ? body : undefined }), s, ids[`binary/${i}`]);
    assert.deepEqual(r.body, Buffer.from(s.data)); // byte for byte
  });
  test(`structured: ${s.name}`, () => {
    const events = plain.of("/structured").map((r) => HTTP.toEvent(text(r)));
    sameEvent(events.find((e) => e.id === ids[`structured/${i}`]), s, ids[`structured/${i}`]);
  });
  test(`batch: ${s.name}`, () => {
    const events = plain.of("/batch").flatMap((r) => HTTP.toEvent(text(r)));
    sameEvent(events.find((e) => e.id === ids[`batch/${i}`]), s, ids[`batch/${i}`]);
  });
}

test("raw has payload and own headers alone", () => {
  const [r] = plain.of("/raw");
  assert.equal(r.body.toString(), "{}");
  assert.equal(r.headers["x-own"], "1");
  assert.ok(!Object.keys(r.headers).some((name) => name.startsWith("ce-") || name.startsWith("webhook-")));
});

test("a signature is good with the new key and with the old one", () => {
  const sent = plain.of("/signed");
  assert.equal(sent.length, 2); // refused, and sent again
  for (const r of sent) {
    assert.equal(r.headers["webhook-id"], ids.signed);
    for (const n of [1, 2]) assert.deepEqual(new Webhook(key(n)).verify(r.body.toString("utf8"), r.headers), { a: "\u20ac" });
    assert.throws(() => new Webhook(key(3)).verify(r.body.toString("utf8"), r.headers), /No matching signature/);
    assert.throws(() => new Webhook(key(1)).verify(r.body.toString("utf8") + " ", r.headers), /No matching signature/);
  }
});

test("batches are signed, too, each with an id of its own", () => {
  const sent = plain.of("/batch");
  for (const r of sent) new Webhook(key(1)).verify(r.body.toString("utf8"), r.headers);
  assert.equal(new Set(sent.map((r) => r.headers["webhook-id"])).size, sent.length);
});

test("HTTP/2 where the server speaks it: all on one connection, with our certificate", () => {
  const sent = secure.of("/tls");
  assert.equal(sent.length, 20);
  for (const r of sent) {
    assert.equal(r.version, "2.0");
    assert.equal(r.client, "the postrider");
    new Webhook(key(1)).verify(r.body.toString("utf8"), r.headers);
    assert.equal(HTTP.toEvent(text(r)).type, "many");
  }
  assert.equal(secure.connections, 1);
});

test("HTTP/1.1 connections are used again", () => {
  assert.equal(plain.of("/few").length, 20);
  assert.ok(new Set(plain.of("/few").map((r) => r.port)).size <= 4); // concurrency
});

test("a server without HTTP/2 is served, too, and its connections are used again", () => {
  assert.deepEqual([...new Set(old.of("/old").map((r) => r.version))], ["1.1"]);
  assert.equal(old.of("/old").length, 20);
  assert.ok(old.connections <= 3, `${old.connections} connections`);
});

test("one message goes to all endpoints of a route by header", () => {
  assert.equal(plain.of("/binary").filter((r) => r.headers["ce-type"] === "copy").length, 1);
  assert.equal(plain.of("/structured").filter((r) => JSON.parse(r.body).type === "copy").length, 1);
});

test("a line of a file is a structured event", () => {
  const lines = fs.readFileSync(path.join(folder, "audit.jsonl"), "utf8").trimEnd().split("\n");
  const event = HTTP.toEvent({ headers: { "content-type": "application/cloudevents+json" }, body: lines[0] });
  assert.equal(event.id, ids.file);
  assert.deepEqual(event.data, { a: 1 });
});

// While servers of this very process are to answer it must not wait for a program.
async function runBeside(...args) {
  const child = start(args, "pipe");
  let said = "";
  child.stdout.on("data", (chunk) => (said += chunk));
  return { code: await finished(child), said };
}

test("endpoints test says what happened", async () => {
  const { code, said } = await runBeside("endpoints", "test", "signed", "--json");
  assert.equal(code, 0);
  const marked = JSON.parse(said);
  assert.equal(marked.outcome, "delivered");
  const arrived = plain.requests.find((r) => r.headers["ce-id"] === marked.id);
  assert.equal(arrived.headers["ce-type"], "postrider.test");
  assert.equal(arrived.headers["postrider-test"], "true");
  new Webhook(key(1)).verify(arrived.body.toString("utf8"), arrived.headers);
  assert.equal(ok("list", "--type", "postrider.test"), ""); // not stored
});

test("a server that wants a certificate refuses who has none", async () => {
  const { code, said } = await runBeside("endpoints", "test", "stranger");
  assert.equal(code, 1);
  assert.match(said, /transport_unavailable/);
});

// ---- All of it ------------------------------------------------------------------------------------

ok("init");
sendAll();
await deliverAll();
await runTests();
