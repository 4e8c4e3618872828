// work.mjs CLIENT URL COUNT: handles messages as clients_test.py expects, and ends after COUNT of them are completed.
const [client, url, count] = process.argv.slice(2);
const { Fail, Worker } = await import(client);
const worker = new Worker(url, { concurrency: 5, types: true, log: () => {} });
let left = Number(count), after = false;
const done = () => { if (--left === 0) worker.stop(); };

worker
  .handle("order.slow", async () => { await new Promise((resolve) => setTimeout(resolve, 2500)); done(); })
  .handle("order.picky", (message) => {
    if (message.attempt === 1) throw new Fail("dependency_failure", "not yet", { code: "E1", retryAfter: "100ms" });
    done();
  })
  .handle("order.jam", (message) => {
    if (message.attempt === 1) throw new Fail("dependency_failure", "later", { retryAfter: "1s", releaseFollowers: true });
    if (!after) process.exit(1); // the one behind it was not let past
    done();
  })
  .handle("order.after", () => { after = true; done(); })
  .handle("order.broken", (message) => {
    if (message.attempt === 1) throw new TypeError("boom");
    done();
  })
  .handle("order.*", (message) => {
    done();
    return [{ type: "handled", payload: { type: message.type, bytes: message.payload.toString("hex"), headers: message.headers },
      box: "ledger", stream: message.stream }];
  });
await worker.run();
