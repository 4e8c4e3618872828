// brokers.mjs POSTRIDER NPM_FOLDER KAFKA_MOCK - what we send to Kafka and by MQTT 5, read by the npm package cloudevents.
//
// A real postrider sends to librdkafka's mock brokers and to a real Mosquitto; kcat and mosquitto_sub say what
// arrived: headers, keys and payloads as they are.
import { spawn, spawnSync } from "node:child_process";
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { deliverAll, folder, freePort, inFolder, ok, require, runTests, sameEvent, scenarios, sendScenario, skip, test, until } from "./events.mjs";

const { Kafka, MQTT } = require("cloudevents");
const modes = ["binary", "structured", "raw"];

for (const program of ["kcat", "mosquitto", "mosquitto_sub", "mosquitto_pub"])
  if (spawnSync("sh", ["-c", `command -v ${program}`]).status !== 0) skip(`${program} is not installed`);

// ---- The brokers ----------------------------------------------------------------------------------

// A program beside us that does not outlive us, and what it has said so far.
function beside(stdin, ...command) {
  const child = spawn("setpriv", ["--pdeathsig", "KILL", ...command], { cwd: folder, stdio: [stdin, "pipe", "ignore"] });
  const beside = { said: "" };
  child.stdout.setEncoding("latin1"); // bytes
  child.stdout.on("data", (chunk) => (beside.said += chunk));
  process.on("exit", () => child.kill("SIGKILL"));
  return beside;
}

const text = (bytes) => Buffer.from(bytes, "latin1").toString("utf8");
const mock = beside("pipe", path.resolve(process.argv[4]));
await until("the cluster is there", () => mock.said.includes("\n"));
const kafka = mock.said.trim();
const mqttPort = await freePort();
const mqtt = ["-V", "mqttv5", "-h", "127.0.0.1", "-p", `${mqttPort}`, "-q", "1"];
fs.writeFileSync(inFolder("mosquitto.conf"), `listener ${mqttPort} 127.0.0.1\nallow_anonymous true\nuser root\n`);
beside("ignore", "mosquitto", "-c", inFolder("mosquitto.conf"));
await until("the broker is there", () => spawnSync("mosquitto_pub", [...mqtt, "-t", "ready", "-n"]).status === 0);
const subscriber = beside("ignore", "mosquitto_sub", ...mqtt, "-t", "#", "-F", "%x %j");
await until("somebody listens", () => {
  spawnSync("mosquitto_pub", [...mqtt, "-t", "ready", "-n"]);
  return subscriber.said.includes("ready");
});

// {mode, headers, contentType, key, body} of each record; its topic is the mode.
function kafkaRecords() {
  return modes.flatMap((mode) => {
    const done = spawnSync("kcat", ["-C", "-b", kafka, "-t", mode, "-o", "beginning", "-e", "-q", "-J", "-X", "fetch.wait.max.ms=10"], { encoding: "latin1" });
    assert.equal(done.status, 0, done.stderr);
    return done.stdout.split("\n").filter(Boolean).map((line) => {
      const { headers: list = [], key, payload } = JSON.parse(line);
      const headers = {};
      for (let i = 0; i < list.length; i += 2) headers[text(list[i])] = text(list[i + 1]);
      return { mode, headers, key: key ?? undefined, body: Buffer.from(payload ?? "", "latin1") };
    });
  });
}

function mqttPublishes() {
  return subscriber.said.split("\n").slice(0, -1).flatMap((line) => {
    const space = line.indexOf(" ");
    const { topic, properties = {} } = JSON.parse(text(line.slice(space + 1)));
    if (!modes.includes(topic)) return [];
    return [{ mode: topic, headers: properties["user-properties"] ?? {}, contentType: properties["content-type"], body: Buffer.from(line.slice(0, space), "hex") }];
  });
}

// ---- Their readers --------------------------------------------------------------------------------

const read = {
  // An empty text is no JSON to it: its caller knows that there is no data.
  kafka: ({ headers, key, body }) => Kafka.toEvent({ headers, key, value: body.length === 0 && headers["content-type"].includes("json") ? "null" : body }),
  // It reads the data, and in binary mode the content type, as its caller hands them over.
  mqtt: ({ headers, contentType, body }) => {
    const structured = contentType?.startsWith("application/cloudevents");
    const json = contentType?.includes("json") && body.length > 0;
    const data = json && !structured ? JSON.parse(body) : structured ? body.toString("utf8") : body;
    return MQTT.toEvent({ PUBLISH: { "Content Type": contentType }, headers: structured ? headers : { ...headers, datacontenttype: contentType }, body: data }, true);
  },
};
const arrived = {}; // by transport
const ids = {};     // "transport/mode/scenario"

function eventOf(transport, mode, id) {
  const idOf = (r) => r.headers.ce_id ?? r.headers.id ?? JSON.parse(r.body).id;
  const found = arrived[transport].filter((r) => r.mode === mode && idOf(r) === id);
  assert.equal(found.length, 1);
  return { r: found[0], event: read[transport](found[0]) };
}

for (const transport of ["kafka", "mqtt"]) {
  for (const [i, s] of scenarios.entries()) {
    test(`${transport}, binary: ${s.name}`, () => {
      const { r, event } = eventOf(transport, "binary", ids[`${transport}/binary/${i}`]);
      sameEvent(event, s, ids[`${transport}/binary/${i}`]);
      assert.deepEqual(r.body, Buffer.from(s.data)); // byte for byte
    });
    test(`${transport}, structured: ${s.name}`, () => {
      const { r, event } = eventOf(transport, "structured", ids[`${transport}/structured/${i}`]);
      assert.equal(transport === "kafka" ? r.headers["content-type"] : r.contentType, "application/cloudevents+json");
      sameEvent(event, s, ids[`${transport}/structured/${i}`]);
    });
  }
  test(`${transport}, raw: payload and own headers alone`, () => {
    const [r, ...others] = arrived[transport].filter((q) => q.mode === "raw");
    assert.equal(others.length, 0);
    assert.equal(r.body.toString(), "{}");
    assert.deepEqual(r.headers, { "x-own": "1" });
  });
}

test("a record's key is the stream", () => {
  const keys = arrived.kafka.filter((r) => r.mode !== "raw").map((r) => r.key).filter((key) => key !== undefined);
  assert.deepEqual(keys, ["order-7", "order-7"]);
});

// ---- All of it ------------------------------------------------------------------------------------

// They get their messages first, and nobody else notices (I13).
const broken = {
  refused: { url: "kafka://127.0.0.1:1/x", error: /127\.0\.0\.1:1/ },
  lost: { url: "mqtt://nosuch.invalid/x?plain=true", error: /check the host in its url/ },
  missing: { url: "exec:/no/such/program", error: /No such file/ },
};
const waiting = () => ok("list", "--json").split("\n").filter(Boolean).map((line) => JSON.parse(line));

test("broken endpoints say what is wrong, and the others have not noticed", () => {
  const left = arrived.left;
  assert.deepEqual([...new Set(left.map((m) => m.destination))].sort(), Object.keys(broken).sort());
  for (const [name, { error }] of Object.entries(broken))
    assert.ok(left.some((m) => m.destination === name && error.test(m.error)), JSON.stringify(left));
});

const endpoint = (transport, mode) =>
  `  ${transport}-${mode}: {url: '${transport === "kafka" ? `kafka://${kafka}` : `mqtt://127.0.0.1:${mqttPort}`}/${mode}', envelope: ${mode}}\n`;

const endpoints = ["kafka", "mqtt"].flatMap((transport) => modes.map((mode) => endpoint(transport, mode)));
for (const [name, { url }] of Object.entries(broken)) endpoints.push(`  ${name}: {url: '${url}', breaker: off}\n`);
fs.writeFileSync(inFolder("postrider.yaml"), `store: sqlite:${folder}/box.db\nendpoints:\n${endpoints.join("")}`);
ok("init");
for (const name of Object.keys(broken)) for (let i = 0; i < 3; i++) ok("send", "--type", "x", "--to", name, "--data", "{}");
for (const transport of ["kafka", "mqtt"]) {
  for (const mode of ["binary", "structured"])
    for (const [i, s] of scenarios.entries()) ids[`${transport}/${mode}/${i}`] = sendScenario(s, `${transport}-${mode}`);
  ok("send", "--type", "x", "--to", `${transport}-raw`, "--data", "{}", "--header", "x-own=1");
}
await deliverAll(() => {
  const left = waiting();
  return left.every((m) => m.destination in broken) && Object.keys(broken).every((name) => left.some((m) => m.destination === name && m.error));
});
arrived.left = waiting();
arrived.kafka = kafkaRecords();
await until("the subscriber has them", () => mqttPublishes().length >= 2 * scenarios.length + 1);
arrived.mqtt = mqttPublishes();
await runTests();
