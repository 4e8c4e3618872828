// lost.mjs CLIENT URL: handles three messages that are claimed together; the first keeps the process busy for longer than a claim lasts.
const { Worker } = await import(process.argv[2]);
const worker = new Worker(process.argv[3], { concurrency: 3, wait: 1 });
const done = new Set();

worker.handle("order.*", (message) => {
  console.log(message.type, message.attempt);
  if (message.type === "order.0" && message.attempt === 1)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500); // no timer runs meanwhile
  done.add(message.type);
  if (done.size === 3 && message.attempt > 1) worker.stop();
});

await worker.run();
