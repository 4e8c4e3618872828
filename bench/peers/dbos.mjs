// Each message is a workflow of one step, enqueued by its client and run from a queue.
import { DBOS, DBOSClient } from '@dbos-inc/dbos-sdk';

export const settings = {
    default: {}, // a queue without limits, looked at once a second
    // Its documented ways: a limit for the process, so that it does not load more than it can run, and a short pause between looks.
    best: { workerConcurrency: 100, minPollingIntervalMs: 10 },
};

const APPLICATION = 'bench';
process.env.DBOS__APPVERSION = 'bench';

let handler = () => {};
const messageWorkflow = DBOS.registerWorkflow(async (data) => {
    await DBOS.runStep(async () => handler(data), { name: 'handle' });
}, { name: 'message' });

// It needs a user and a host in front; the socket behind them is what counts.
const address = (url) => url.replace('///', '//postgres:none@localhost/');
const client = (url) => DBOSClient.create({ systemDatabaseUrl: address(url), applicationName: APPLICATION });
const options = { workflowName: 'message', queueName: 'bench', appVersion: 'bench' };

async function launch(url, s) {
    DBOS.setConfig({ name: APPLICATION, systemDatabaseUrl: address(url), applicationVersion: 'bench', logLevel: 'error', runAdminServer: false });
    await DBOS.launch();
    await DBOS.registerQueue('bench', { ...s, onConflict: 'always_update' });
}

export async function setup(url, s) {
    await launch(url, s);
    await DBOS.shutdown();
}

export async function fill(url, count, payload) {
    const c = await client(url);
    for (let i = 0; i < count; i += 100)
        await Promise.all(Array.from({ length: Math.min(100, count - i) }, () => c.enqueue(options, { fill: payload })));
    await c.destroy();
}

export function sender(url) {
    let c;
    return {
        begin: async () => { c = await client(url); },
        send: (data) => c.enqueue(options, data),
        close: () => c.destroy(),
    };
}

export async function work(url, s, handle) {
    handler = handle;
    await launch(url, s);
    return () => DBOS.shutdown();
}
void messageWorkflow;
