// send.mjs CLIENT KIND PLACE NPM_FOLDER: what clients_test.py expects of a client, sent with Node.  KIND: sqlite or pg.
import { createRequire } from "node:module";
import path from "node:path";

const [client, kind, place, npm] = process.argv.slice(2);
const library = await import(client);
const send = (connection, message, options) => library.send(connection, message, { schema: process.env.SCHEMA, ...options });

async function connect() {
  if (kind === "sqlite") {
    const { DatabaseSync } = await import("node:sqlite");
    const db = new DatabaseSync(place);
    db.exec("PRAGMA busy_timeout = 30000");
    return { connection: db, run: (sql) => db.exec(sql), close: () => db.close() };
  }
  const { Client } = createRequire(path.join(npm, "index.js"))("pg");
  const pg = new Client();
  await pg.connect();
  return { connection: pg, run: (sql) => pg.query(sql), close: () => pg.end() };
}

const { connection, run, close } = await connect();
await run("BEGIN");
await send(connection, { type: "order.created", payload: { n: 1, text: "ü \\ \" \n" }, box: "inbox", stream: "s",
  headers: { k: "v" }, correlationId: "c", expires: 3600_000 });
await send(connection, { type: "order.text", payload: "plain text", box: "inbox", stream: "s" });
await send(connection, { type: "order.bytes", payload: new Uint8Array([0, 255]), box: "inbox", stream: "s" });
await send(connection, { type: "order.later", payload: { n: 4 }, box: "inbox", due: 86400_000 });
await run("COMMIT");
await run("BEGIN");
await send(connection, { type: "order.never", payload: {}, box: "inbox", stream: "s" });
await run("ROLLBACK");

// Events that expect a version: the first, the same again, the next, and one that comes too late.
const counted = { type: "order.counted", payload: {}, box: "ledger", stream: "counted", event: true };
await run("BEGIN");
const id = library.uuid7();
await send(connection, { ...counted, id, expectedVersion: 0 });
await send(connection, { ...counted, id, expectedVersion: 0 });
await send(connection, { ...counted, expectedVersion: 1 });
await run("COMMIT");
await run("BEGIN");
let conflict;
try { await send(connection, { ...counted, expectedVersion: 1 }); } catch (error) { conflict = error; }
if (!(conflict instanceof library.VersionConflict && conflict.version === 2) && conflict?.code !== "PR409") throw conflict ?? new Error("no conflict");
await run("ROLLBACK");

for (const wrong of [() => send({}, { type: "x" }), () => send(connection, {}), () => send(connection, { type: "x" }, { schema: "a b", table: "a b" })]) {
  let refused = false;
  try { await wrong(); } catch (error) { refused = error instanceof TypeError; }
  if (!refused) throw new Error("this was to be refused");
}
await close();
