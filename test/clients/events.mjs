// events.mjs CLIENT URL: what clients_test.py expects of a client that reads and appends events, with Node.
import assert from "node:assert/strict";
import http from "node:http";

const [client, url] = process.argv.slice(2);
const { Events, VersionConflict } = await import(client);
const events = new Events(url, { wait: 1, page: 2 });
const message = { type: "order.paid", payload: { n: 1 }, stream: "order/1", headers: { h: "1" } };
const collect = async (generator, max = Infinity) => {
  const list = [];
  for await (const event of generator) if (list.push(event) === max) break;
  return list;
};

assert.equal(await events.append(message, 0), 1);
await assert.rejects(events.append(message, 0), (e) => e instanceof VersionConflict && e.expected === 0 && e.version === 1);
assert.equal(await events.append(message, 1), 2);
assert.equal(await events.append({ type: "order.sent", payload: new Uint8Array([0, 255]), stream: "order/1" }), 3);
assert.deepEqual((await collect(events.read("order/1"))).map((e) => [e.version, e.type]),
  [[1, "order.paid"], [2, "order.paid"], [3, "order.sent"]]);
assert.deepEqual((await collect(events.read("order/1", 3))).map((e) => e.payload.toString("hex")), ["00ff"]);
const [first] = await collect(events.read("order/1"), 1);
assert.deepEqual([first.json(), first.headers, first.place], [{ n: 1 }, { h: "1" }, 0]);
assert.deepEqual((await collect(events.readAll())).map((e) => e.place), [1, 2, 3]);

setTimeout(() => events.append(message), 300);
assert.deepEqual((await collect(events.tail(2), 2)).map((e) => e.place), [3, 4]); // the last one comes while it waits

assert.equal(await events.snapshot("order/1"), undefined);
assert.equal(await events.saveSnapshot("order/1", 2, { total: 5 }), true);
assert.equal(await events.saveSnapshot("order/1", 1, new Uint8Array([1])), false);
const snapshot = await events.snapshot("order/1");
assert.deepEqual([snapshot.version, snapshot.data.toString()], [2, '{"total":5}']);

const stop = new AbortController(), seen = [];
await events.project("view", (batch) => {
  seen.push(...batch.map((e) => e.place));
  if (seen.length === 4) stop.abort();
}, { batch: 3, signal: stop.signal });
assert.deepEqual(seen, [1, 2, 3, 4]);
await assert.rejects(events.project("broken", () => { throw new RangeError("no"); }), RangeError);

// A daemon that goes away before its first answer.
let asked = 0;
const away = http.createServer((request, answer) => {
  asked += 1;
  if (asked === 1) request.socket.destroy();
  else answer.end('{"events":[{"place":7,"stream":"s","version":1,"id":"x","type":"t","payload":"1"}],"next":7,"more":false}');
});
await new Promise((resolve) => { away.listen(0, "127.0.0.1", resolve); });
const again = new Events(`http://127.0.0.1:${away.address().port}`, { log: () => {} });
assert.deepEqual([(await collect(again.tail(6), 1))[0].place, asked], [7, 2]);
away.closeAllConnections();
away.close();
