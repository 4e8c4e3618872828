// Send a message in your own transaction on PostgreSQL: the order and its message are stored
// together, or neither is.
//
//     npm install pg
//     postrider init --store postgres:///shop
//     node send.mjs postgres:///shop
import pg from 'pg';

const client = new pg.Client({ connectionString: process.argv[2] });
await client.connect();
try {
    await client.query('CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, total int)');
    await client.query('BEGIN');
    const { rows: [{ id: order }] } = await client.query('INSERT INTO orders (total) VALUES (4200) RETURNING id');

    // A plain INSERT: everything that is not named has a default.
    await client.query('INSERT INTO postrider.outbox (type, stream, payload) VALUES ($1, $2, $3)',
        ['order.placed', `order-${order}`, JSON.stringify({ order, total: 4200 })]);

    // Or the function, which also tells the id.
    const { rows: [{ id }] } = await client.query(
        'SELECT postrider.send(type => $1, payload => $2::jsonb, stream => $3, headers => $4::jsonb) AS id',
        ['order.invoiced', { order }, `order-${order}`, { tenant: '7' }]);

    await client.query('COMMIT');
    console.log('stored', id);
} catch (error) {
    await client.query('ROLLBACK');
    throw error;
} finally {
    await client.end();
}
