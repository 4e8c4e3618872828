// request.mjs CLIENT URL ask|resume ID|away: what clients_test.py expects of a client that asks and replies, with Node.
// ask prints the id of a request that nobody has answered when it ends; resume answers it and waits for its reply.
import assert from "node:assert/strict";

const [client, url, what, late] = process.argv.slice(2);
const { Events, Fail, NoReply, Requests, RequestTimeout, uuid7, Worker } = await import(client);
const requests = new Requests(url, { wait: 1, log: () => {} });
let refused;

const worker = new Worker(url, { wait: 1, log: () => {} })
  .handle("price.*", (message) => [message.reply({ type: "price", payload: { item: message.json().item, bytes: 5 }, headers: { h: "1" } })])
  .handle("plain", (message) => { try { message.reply({ type: "x" }); } catch (error) { refused = error; } })
  .handle("bad", () => { throw new Fail("validation_failure", "no"); });
const ask = (item, more) => ({ type: "price.ask", payload: { item }, box: "inbox", ...more });

if (what === "ask") {
  const working = worker.run();
  const reply = await requests.request(ask(7));
  assert.deepEqual([reply.type, reply.json(), reply.headers.h], ["price", { item: 7, bytes: 5 }, "1"]);
  const id = uuid7();
  const first = await requests.request(ask(8, { id }));
  assert.equal(first.json().item, 8);
  assert.equal((await requests.request(ask(8, { id }), { deadline: 5 })).id, first.id);
  assert.equal((await requests.resume(id, { deadline: 0 })).id, first.id); // it is kept
  await assert.rejects(requests.request({ type: "bad", payload: {}, box: "inbox" }), (e) => e instanceof NoReply && e.state === "dead");
  await assert.rejects(requests.resume(uuid7(), { deadline: 1 }), (e) => e instanceof NoReply && e.state === "unknown");
  await assert.rejects(requests.request({ type: "x", box: "nowhere" }, { deadline: 1 }), /nowhere/);
  await new Events(url).append({ type: "plain", payload: {}, stream: "p", box: "inbox" });
  while (!refused) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.match(refused.message, /nobody waits/);
  worker.stop();
  await working;
  await assert.rejects(requests.request(ask(9), { deadline: 0.2 }), (e) => e instanceof RequestTimeout && console.log(e.id) === undefined);
} else if (what === "resume") {
  await assert.rejects(requests.resume(late, { deadline: 0.2 }), (e) => e instanceof RequestTimeout && e.id === late);
  const working = worker.run();
  assert.equal((await requests.resume(late)).json().item, 9);
  worker.stop();
  await working;
} else {
  const working = worker.run();
  assert.equal((await requests.request(ask(1))).json().item, 1);
  worker.stop();
  await working;
}
