// receive.mjs POSTRIDER NPM_FOLDER - what the npm package cloudevents sends, taken by our API.
//
// Events go in as the package writes them, and come out at a server of Node's own, where the package reads them.
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import { finished, folder, freePort, inFolder, ok, require, runTests, start, test, until } from "./events.mjs";

const { CloudEvent, HTTP } = require("cloudevents");

const requests = [];
const receiver = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    requests.push({ headers: request.headers, body: Buffer.concat(chunks).toString("utf8") });
    response.end();
  });
});
await new Promise((done) => receiver.listen(0, "127.0.0.1", done));
const port = await freePort();
fs.writeFileSync(inFolder("postrider.yaml"), `
store: sqlite:${folder}/box.db
endpoints:
  out: {url: 'http://127.0.0.1:${receiver.address().port}/', allow_networks: [127.0.0.0/8], envelope: structured}
http: {listen: '127.0.0.1:${port}'}
routes:
  - {to: out}
`);
ok("init");
const daemon = start(["run"], "ignore");
const ended = finished(daemon);
process.on("exit", () => daemon.kill("SIGKILL"));

function post(message) {
  return new Promise((done, failed) => {
    const request = http.request({ port, host: "127.0.0.1", path: "/v1/messages", method: "POST", headers: { ...message.headers, "X-Postrider": "1" } }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => done({ status: response.statusCode, text }));
    });
    request.on("error", failed);
    request.end(message.body);
  });
}

const common = { source: "/shop", type: "order.created", subject: "7", partitionkey: "order-7" };
const events = [
  { name: "JSON", ...common, datacontenttype: "application/json", data: { a: [1, "\u20ac"] } },
  { name: "text", ...common, datacontenttype: "text/plain", data: "Hello" },
  { name: "bytes", ...common, datacontenttype: "application/octet-stream", data: new Uint8Array([0, 1, 0xff]) },
];

for (const { name, ...attributes } of events)
  for (const mode of ["binary", "structured"])
    test(`${mode}: ${name}`, async () => {
      const event = new CloudEvent(attributes);
      const answer = await post(HTTP[mode](event));
      assert.equal(answer.status, 202, answer.text);
      let arrived;
      await until("it comes out", () => (arrived = requests.map((r) => HTTP.toEvent(r)).find((e) => e.id === event.id)));
      arrived.validate();
      for (const key of ["id", "source", "type", "subject", "partitionkey", "datacontenttype", "data_base64"]) assert.equal(arrived[key], event[key], key);
      if (event.data_base64 === undefined) assert.deepEqual(arrived.data, event.data);
    });

test("what the package cannot read either is refused", async () => {
  const { status, text } = await post({ headers: { "content-type": "application/cloudevents+json" }, body: '{"specversion":"1.0","id":"1","type":"t"}' });
  assert.equal(status, 400);
  assert.match(text, /source is missing/);
});

test("it stops in order", async () => {
  daemon.kill("SIGTERM");
  assert.equal(await ended, 0);
});

await until("it takes requests", () => post({ headers: {}, body: "" }).then(() => true, () => false));
await runTests();
