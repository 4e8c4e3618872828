import * as worker from 'graphile-worker';
import { pool, run } from './peer-pg.mjs';

export const settings = {
    default: { concurrentJobs: 1 }, // as its preset has it
    // What its chapter on performance calls optimal conditions, with the concurrency that drained most on two cores.
    best: { concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
};

export async function setup(url) {
    await worker.runMigrations({ connectionString: url });
}

const add = (url, count, spec) => run(url, [
    `SELECT FROM graphile_worker.add_jobs(ARRAY(SELECT ${spec} FROM generate_series(1, $1::int) i), true)`, [count],
]);
const job = (payload, queue) =>
    `json_populate_record(NULL::graphile_worker.job_spec, json_build_object('identifier', 'bench', 'queue_name', ${queue}, 'payload',
      json_build_object('fill', '${payload}', 'bad', i <= 2 AND ${queue} IS NOT NULL), 'max_attempts', 25))`;

export const fill = (url, count, payload) => add(url, count, job(payload, 'NULL::text'));
// Its named queues run one job at a time, in order.
export const fillStuck = (url, count, payload) => add(url, count, job(payload, `('stuck-' || i % 2)`));

export function sender(url, clients) {
    const p = pool(url, clients);
    return {
        send: (data) => p.query({
            name: 'send', text: `SELECT FROM graphile_worker.add_job('bench', $1::json)`, values: [JSON.stringify(data)],
        }),
        close: () => p.end(),
    };
}

export async function work(url, s, handle) {
    const runner = await worker.run({
        preset: { worker: { connectionString: url, ...s } },
        logger: new worker.Logger(() => () => {}),
        noHandleSignals: true,
        taskList: { bench: async (payload) => handle(payload) },
    });
    return () => runner.stop();
}
