// What the peers on PostgreSQL share: a pool of the database under test, and rows made by the server.
import pg from 'pg';

export function pool(url, max) {
    return new pg.Pool({ connectionString: url, max });
}

export async function run(url, ...statements) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
        for (const [text, values] of statements) await client.query(text, values);
    } finally {
        await client.end();
    }
}
