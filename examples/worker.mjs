// Handle messages in Node: claim them from a running Postrider, and send others with the completion.
//
//     endpoints: {billing: {url: "pull:", timeout: 30s}}          # postrider.yaml
//     routes: [{box: inbox, type: "order.*", to: billing}]
//
//     node worker.mjs http://127.0.0.1:8026
import { Fail, Worker } from '../clients/node/postrider.mjs';

const worker = new Worker(process.argv[2] ?? 'http://127.0.0.1:8026');
for (const signal of ['SIGINT', 'SIGTERM'])
    process.on(signal, () => worker.stop()); // what is being handled ends first

worker.handle('order.placed', async (message) => {
    const { order, total } = message.json();
    if (total <= 0) // it is tried again as often as `retry` of the endpoint says, unless a rule for this reason decides otherwise
        throw new Fail('validation_failure', 'nothing to bill');
    console.log('billing order', order, 'attempt', message.attempt);
    // Stored in the transaction that completes the order: both, or neither.
    return [{ type: 'order.billed', payload: { order }, stream: message.stream }];
});

await worker.run();
