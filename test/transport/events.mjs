// events.mjs - what the tests with other people's libraries have in common: npm, a postrider in a folder of its
// own, the events that they send, and TAP.
//
// The rows of `scenarios` are the events of the public CloudEvents conformance suite (its HTTP and Kafka features,
// and its valid JSON events) as far as a sender decides about them, and some that are harder on an encoder.
import { spawn, spawnSync } from "node:child_process";
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const WAIT_MS = 60000;
const [postrider, npmFolder] = process.argv.slice(2).map((name) => path.resolve(name));

export function skip(why) {
  console.log(`1..0 # SKIP ${why}`);
  process.exit(0);
}

// Two tests may come at once: one of them installs.
function install(packages) {
  const done = spawnSync("flock", [path.join(npmFolder, ".lock"), "npm", "install", "--prefix", npmFolder, "--no-audit", "--no-fund", "--silent", ...packages]);
  if (done.status !== 0) skip(`npm cannot install ${packages.join(" and ")} here`);
}

const PACKAGES = ["cloudevents@10", "standardwebhooks@1"];
fs.mkdirSync(npmFolder, { recursive: true });
if (!PACKAGES.every((p) => fs.existsSync(path.join(npmFolder, "node_modules", p.split("@")[0], "package.json")))) install(PACKAGES);
export const require = createRequire(path.join(npmFolder, "index.js"));

// ---- postrider ------------------------------------------------------------------------------------

export const folder = fs.mkdtempSync(path.join(os.tmpdir(), "postrider-test-"));
process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true })); // also after a failure
export const inFolder = (name) => path.join(folder, name);

export function ok(...args) {
  const done = spawnSync(postrider, args, { cwd: folder, encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout;
}

export const start = (args, stdio) => spawn(postrider, args, { cwd: folder, stdio });
export const finished = (child) => new Promise((done) => child.on("close", done));

export async function until(what, condition) {
  const end = Date.now() + WAIT_MS;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

// Below those that the system gives to whoever asks for any: nobody gets it before its server is up.
export const freePort = () => new Promise((done) => {
  const port = 10000 + Math.floor(Math.random() * 20000);
  const server = net.createServer();
  server.on("error", () => done(freePort()));
  server.listen(port, "127.0.0.1", () => server.close(() => done(port)));
});

// Runs it until everything that is stored has ended, or that is true.
export async function deliverAll(condition = () => ok("list") === "") {
  const daemon = start(["run"], "ignore");
  const ended = finished(daemon);
  try {
    await until("all is delivered", condition);
  } finally {
    daemon.kill("SIGTERM");
    await ended;
  }
}

// ---- Events ---------------------------------------------------------------------------------------

export const scenarios = [
  { name: "JSON content", type: "com.example.someevent", source: "/mycontext/subcontext", contentType: "application/json", data: '{ "message": "Hello World!" }' },
  { name: "JSON content with a charset", type: "com.example.someevent", source: "/mycontext/subcontext", contentType: "application/json; charset=utf-8", data: '{ "message": "Hello World!" }' },
  { name: "the least", type: "io.cloudevents.test", source: "https://cloudevents.io", contentType: "application/json", data: "" },
  { name: "a relative source", type: "io.cloudevents.test", source: "#fragment", contentType: "application/json", data: "" },
  { name: "the attributes of the core", type: "io.cloudevents.test", source: "https://cloudevents.io", subject: "tests", contentType: "text/plain", data: "" },
  { name: "simple text", type: "io.cloudevents.test", source: "https://cloudevents.io", contentType: "text/plain", data: "Simple text" },
  { name: "text beyond ASCII", type: "com.example.someevent", source: "/mycontext", contentType: "text/plain", data: "Hello, \u20ac" },
  { name: "bytes", type: "com.example.bytes", source: "urn:x:1", contentType: "application/octet-stream", data: Buffer.from([0, 1, 2, 0xff, 0xfe]) },
  { name: "attributes that need encoding", type: "com.example.someevent", source: "https://example.org/a%20b", subject: 'a "b", % \u{1F600}', contentType: "application/json", data: '{"n":1}' },
  { name: "a stream", type: "com.example.someevent", source: "/x", stream: "order-7", contentType: "application/json", data: "[1]" },
];

// The id.
export function sendScenario(s, to) {
  const flags = ["--type", s.type, "--source", s.source, "--content-type", s.contentType, "--to", to, "--file", inFolder("data")];
  fs.writeFileSync(inFolder("data"), s.data);
  for (const name of ["subject", "stream"]) if (s[name]) flags.push(`--${name}`, s[name]);
  return ok("send", ...flags).trim();
}

function sameData(event, scenario) {
  if (scenario.data.length === 0) assert.ok(event.data == null || event.data.length === 0);
  else if (Buffer.isBuffer(scenario.data)) assert.deepEqual(Buffer.from(event.data_base64 ?? Buffer.from(event.data).toString("base64"), "base64"), scenario.data);
  else if (scenario.contentType.includes("json")) assert.deepEqual(event.data, JSON.parse(scenario.data));
  else assert.equal(String(event.data), scenario.data);
}

export function sameEvent(event, scenario, id) {
  event.validate();
  assert.equal(event.specversion, "1.0");
  assert.equal(event.id, id);
  assert.equal(event.type, scenario.type);
  assert.equal(event.source, scenario.source);
  assert.equal(event.subject, scenario.subject);
  assert.equal(event.datacontenttype, scenario.contentType);
  assert.equal(event.partitionkey, scenario.stream);
  assert.ok(Math.abs(Date.now() - Date.parse(event.time)) < 3600000, event.time);
  sameData(event, scenario);
}

// ---- Tests ----------------------------------------------------------------------------------------

const tests = [];
export const test = (name, body) => tests.push([name, body]);

export async function runTests() {
  let failed = 0;
  console.log(`1..${tests.length}`);
  for (const [i, [name, body]] of tests.entries()) {
    try {
      await body();
      console.log(`ok ${i + 1} - ${name}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${i + 1} - ${name}\n${String(error.stack).replace(/^/gm, "# ")}`);
    }
  }
  process.exit(failed > 0 ? 1 : 0);
}
