// orders.mjs COUNT [PAUSE] - the orders service: places orders until there are COUNT, with a pause of PAUSE milliseconds between
// two.  It may be killed at any moment, and goes on.
//
// Every other order is placed in SQL (orders.sql), the others here; in both an order and its message are one transaction.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const { send } = await import(path.join(here, "../../clients/node/postrider.mjs"));
const { Client } = createRequire(path.join(process.env.NPM_FOLDER ?? here, "index.js"))("pg");
const count = Number(process.argv[2] ?? 10), pause = Number(process.argv[3] ?? 0);

const db = new Client({ connectionString: process.env.DATABASE });
await db.connect();

async function placeOrder(id, total) {
  await db.query("BEGIN");
  await db.query("INSERT INTO orders VALUES ($1, $2)", [id, total]);
  await send(db, { type: "order.placed", source: "/shop/orders", stream: `order-${id}`, payload: { order: id, total } });
  await db.query("COMMIT");
}

let id = Number((await db.query("SELECT coalesce(max(id), 0) AS id FROM orders")).rows[0].id);
while (++id <= count) {
  const total = 1 + ((id * 7919) % 500);
  if (id % 2 === 0) await db.query("SELECT place_order($1, $2)", [id, total]);
  else await placeOrder(id, total);
  if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
}
await db.end();
