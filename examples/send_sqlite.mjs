// Send a message with the client in your own transaction on SQLite: the order and its message are stored together, or neither is.
//
//     postrider init --store sqlite:shop.db
//     node send_sqlite.mjs shop.db        # Node 22 or newer
import { DatabaseSync } from 'node:sqlite';

import { send } from '../clients/node/postrider.mjs';

const db = new DatabaseSync(process.argv[2] ?? 'shop.db');
db.exec('PRAGMA busy_timeout = 5000');
db.exec('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total INTEGER)');

db.exec('BEGIN IMMEDIATE');
try {
    const order = Number(db.prepare('INSERT INTO orders (total) VALUES (4200)').run().lastInsertRowid);
    const id = send(db, {
        type: 'order.placed',
        stream: `order-${order}`,
        payload: { order, total: 4200 },
        headers: { tenant: '7' },
    });
    db.exec('COMMIT');
    console.log('stored', id);
} catch (error) {
    db.exec('ROLLBACK');
    throw error;
} finally {
    db.close();
}
