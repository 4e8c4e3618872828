// On Redis, so a sender's data and its job are two commits: what an outbox is for cannot be had with it.  Redis appends to its
// file with each command (appendfsync always), since the others are durable, too.
import { Queue, Worker } from 'bullmq';

export const settings = {
    default: { concurrency: 1 }, // of a worker
    best: { concurrency: 100 },  // its documentation names 100 to 300 for jobs that do not compute
};

const connection = (url) => ({ path: new URL(url).pathname, maxRetriesPerRequest: null });

export async function setup() {}

export async function fill(url, count, payload) {
    const queue = new Queue('bench', { connection: connection(url) });
    for (let i = 0; i < count; i += 1000)
        await queue.addBulk(Array.from({ length: Math.min(1000, count - i) }, () => ({
            name: 'bench', data: { fill: payload }, opts: { removeOnComplete: true },
        })));
    await queue.close();
}

export function sender(url) {
    const queue = new Queue('bench', { connection: connection(url) });
    return {
        send: (data) => queue.add('bench', data, { removeOnComplete: true }),
        close: () => queue.close(),
    };
}

export async function work(url, s, handle) {
    const worker = new Worker('bench', async (job) => handle(job.data), { connection: connection(url), ...s });
    await worker.waitUntilReady();
    return () => worker.close();
}
