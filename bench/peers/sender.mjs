// node sender.mjs PEER SETTING URL WHAT ...: setup | fill COUNT BYTES | stuck COUNT BYTES | paced COUNT PER_SECOND BYTES |
// flow CLIENTS SECONDS BYTES.  The last two print as JSON when each message was committed, or how many were.
const [peerName, settingName, url, what, ...numbers] = process.argv.slice(2);
const peer = await import(`./${peerName}.mjs`);
const setting = peer.settings[settingName];
const now = () => Number(process.hrtime.bigint()) / 1e9;
const [a, b, c] = numbers.map(Number);
const text = (bytes) => 'x'.repeat(bytes);

async function withSender(clients, use) {
    const sender = await peer.sender(url, clients, setting);
    await sender.begin?.();
    const result = await use(sender);
    await sender.close();
    return result;
}

async function paced(count, perSecond, bytes) {
    const times = {};
    await withSender(1, async (sender) => {
        const start = now();
        for (let n = 0; n < count; n++) {
            while (now() < start + n / perSecond) await new Promise((done) => setTimeout(done, 1));
            await sender.send({ n, fill: text(bytes) });
            times[n] = now();
        }
    });
    return { times };
}

async function flow(clients, seconds, bytes) {
    let sent = 0;
    const until = now() + seconds;
    const payload = text(bytes);
    await withSender(clients, (sender) => Promise.all(Array.from({ length: clients }, async () => {
        while (now() < until) {
            await sender.send({ fill: payload });
            sent++;
        }
    })));
    return { sent, seconds };
}

switch (what) {
case 'setup': await peer.setup(url, setting); break;
case 'fill': await peer.fill(url, a, text(b), setting); break;
case 'stuck': await peer.fillStuck(url, a, text(b), setting); break;
case 'paced': console.log(JSON.stringify(await paced(a, b, c))); break;
case 'flow': console.log(JSON.stringify(await flow(a, b, c))); break;
default: throw new Error(`unknown: ${what}`);
}
process.exit(0);
