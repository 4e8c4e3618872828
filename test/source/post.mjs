// post.mjs POSTRIDER NPM_FOLDER - what the npm packages cloudevents and standardwebhooks send, taken by an http source.
//
// Events go in as the packages write them, and are compared with the rows of the box.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { finished, folder, freePort, inFolder, ok, require, runTests, start, test, until } from "../transport/events.mjs";

const { CloudEvent, emitterFor, httpTransport, Mode } = require("cloudevents");
const { Webhook } = require("standardwebhooks");

const port = await freePort();
const secret = () => `whsec_${randomBytes(32).toString("base64")}`;
const [older, newer] = [secret(), secret()];
fs.writeFileSync(inFolder("postrider.yaml"), `
store: sqlite:${folder}/box.db
sources:
  - {http: 'http://127.0.0.1:${port}/events'}
  - {http: 'http://127.0.0.1:${port}/hooks', secrets: ['${newer}', '${older}']}
`);
ok("init");
const daemon = start(["run"], "ignore");
const ended = finished(daemon);
process.on("exit", () => daemon.kill("SIGKILL"));

const post = (path, headers, body) => fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body });
const rows = () => ok("list", "--box", "inbox", "--json", "--limit", "1000").split("\n").filter(Boolean).map((line) => JSON.parse(line)).flatMap((page) => page.messages ?? [page]);
const show = (id) => JSON.parse(ok("show", id, "--json"));
const found = (id) => rows().find((row) => row.id === id);

const common = { source: "/shop", type: "order.created", subject: "7 x", partitionkey: "order-7", tenant: "seven" };
const events = [
  { name: "JSON", ...common, datacontenttype: "application/json", data: { a: [1, "\u20ac"] } },
  { name: "text", ...common, datacontenttype: "text/plain", data: "Hello" },
];

for (const { name, ...attributes } of events)
  for (const mode of [Mode.BINARY, Mode.STRUCTURED])
    test(`${mode}: ${name}`, async () => {
      const event = new CloudEvent(attributes);
      const answer = await emitterFor(httpTransport(`http://127.0.0.1:${port}/events`), { mode })(event);
      assert.match(answer.body, /"accepted":1/);
      const row = found(event.id); // the answer comes after the commit
      assert.equal(row.type, "order.created");
      assert.equal(row.stream, "order-7");
      assert.equal(row.source, "/shop");
      assert.equal(row.subject, "7 x");
    });

test("batch", async () => {
  const batch = [1, 2, 3].map((n) => new CloudEvent({ ...common, data: { n } }));
  const answer = await post("/events", { "content-type": "application/cloudevents-batch+json" }, JSON.stringify(batch));
  assert.equal(answer.status, 202, await answer.text());
  for (const event of batch) assert.ok(found(event.id));
  const again = await post("/events", { "content-type": "application/cloudevents-batch+json" }, JSON.stringify(batch));
  assert.equal(again.status, 202);
  assert.equal(rows().filter((row) => batch.some((event) => event.id === row.id)).length, 3);
});

for (const [name, key] of [["the newer key", newer], ["the older key", older]])
  test(`a webhook signed with ${name}`, async () => {
    const before = rows().length;
    const body = JSON.stringify({ type: "invoice.paid", timestamp: new Date().toISOString(), data: { id: 1 } });
    const id = `msg_${randomBytes(8).toString("hex")}`, at = new Date();
    const headers = { "content-type": "application/json", "webhook-id": id, "webhook-timestamp": String(Math.floor(at / 1000)), "webhook-signature": new Webhook(key).sign(id, at, body) };
    assert.equal((await post("/hooks", headers, body)).status, 202);
    assert.equal((await post("/hooks", headers, body)).status, 202);
    assert.equal(rows().length, before + 1);
    assert.equal(rows().filter((row) => row.type === "invoice.paid" && show(row.id).headers?.["ce-id"] === id).length, 1);
    assert.equal((await post("/hooks", headers, body + " ")).status, 401);
  });

test("a webhook signed with another key, or long ago", async () => {
  const sign = (key, at) => ({ "webhook-id": "m", "webhook-timestamp": String(Math.floor(at / 1000)), "webhook-signature": new Webhook(key).sign("m", new Date(at), "{}") });
  assert.equal((await post("/hooks", sign(secret(), Date.now()), "{}")).status, 401);
  assert.equal((await post("/hooks", sign(newer, Date.now() - 600000), "{}")).status, 401);
});

test("it stops in order", async () => {
  daemon.kill("SIGTERM");
  assert.equal(await ended, 0);
});

await until("it takes requests", () => post("/nowhere", {}, "").then(() => true, () => false));
await runTests();
