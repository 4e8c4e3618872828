import { PgBoss } from 'pg-boss';
import { pool } from './peer-pg.mjs';

export const settings = {
    // As work() is when nothing is said: one job at a time, with two seconds between two looks.  So this shows that pause.
    default: { batchSize: 1 },
    // Its documented ways to be fast: large batches that are fetched on without a pause, several workers, and LISTEN/NOTIFY for
    // latency.  A batch of 1,000 in 4 workers drained most on two cores.
    best: { batchSize: 1000, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, notify: true },
};

async function open(url, s, supervise) {
    const boss = new PgBoss({
        connectionString: url, max: 10, supervise, schedule: false, useListenNotify: Boolean(s.notify),
    });
    boss.on('error', (error) => console.error(`pg-boss: ${error.message}`));
    await boss.start();
    return boss;
}

async function withBoss(url, s, use) {
    const boss = await open(url, s, false);
    try {
        return await use(boss);
    } finally {
        await boss.stop({ graceful: true, close: true });
    }
}

export async function setup(url, s) {
    await withBoss(url, s, async (boss) => {
        await boss.createQueue('bench', { notify: Boolean(s.notify) });
        await boss.createQueue('ordered', { policy: 'key_strict_fifo', retryDelay: 3600, retryLimit: 5 });
    });
}

async function insert(url, s, queue, count, job) {
    await withBoss(url, s, async (boss) => {
        for (let i = 0; i < count; i += 5000)
            await boss.insert(queue, Array.from({ length: Math.min(5000, count - i) }, (_, k) => job(i + k)));
    });
}

export const fill = (url, count, payload, s) => insert(url, s, 'bench', count, () => ({ data: { fill: payload } }));

// A key's jobs in order: what its documentation offers for that.
export const fillStuck = (url, count, payload, s) =>
    insert(url, s, 'ordered', count, (i) => ({ data: { fill: payload, bad: i < 2 }, singletonKey: `stuck-${i % 2}` }));

export function sender(url, clients, s) {
    const p = pool(url, clients);
    // Its own INSERT, on the caller's connection, as within an application's transaction.
    const db = { executeSql: (text, values) => p.query(text, values) };
    let boss;
    return {
        begin: async () => { boss = await open(url, s, false); },
        send: (data) => boss.send('bench', data, { db }),
        close: async () => { await boss.stop({ graceful: false, close: true }); await p.end(); },
    };
}

export async function work(url, s, handle) {
    const boss = await open(url, s, true);
    const options = { ...s };
    delete options.notify;
    const each = async (jobs) => { for (const job of jobs) handle(job.data); };
    await boss.work('ordered', { batchSize: 1 }, each);
    await boss.work('bench', options, each);
    return () => boss.stop({ graceful: true, close: true });
}
