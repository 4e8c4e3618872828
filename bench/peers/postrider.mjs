// Postrider, for the side that sends.  Its worker is postrider-peer: a C program with a handler, as an embedding program
// has one, since the peers run their handlers in the worker, too.
import { pool, run } from './peer-pg.mjs';

export const settings = {
    default: {}, // as `postrider init` and a configuration with a store and a route make it
};

export async function setup() {} // postrider-peer has made the tables

export async function fill(url, count, payload) {
    await run(url, [
        `INSERT INTO postrider.outbox (type, payload) SELECT 'bench', $2::text FROM generate_series(1, $1::int)`,
        [count, JSON.stringify({ fill: payload })],
    ], ['ANALYZE postrider.outbox']);
}

export async function fillStuck(url, count, payload) {
    await run(url, [
        `INSERT INTO postrider.outbox (type, stream, payload)
         SELECT CASE WHEN i <= 2 THEN 'bad' ELSE 'bench' END, 'stuck-' || i % 2, $2::text FROM generate_series(1, $1::int) i`,
        [count, JSON.stringify({ fill: payload })],
    ], ['ANALYZE postrider.outbox']);
}

export function sender(url, clients) {
    const p = pool(url, clients);
    return {
        send: (data) => p.query({
            name: 'send', text: `INSERT INTO postrider.outbox (type, payload) VALUES ('bench', $1)`, values: [JSON.stringify(data)],
        }),
        close: () => p.end(),
    };
}
