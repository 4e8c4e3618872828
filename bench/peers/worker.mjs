// node worker.mjs PEER SETTING URL EXPECTED: handle messages until stopped.  Says "ready", then "done" and the monotonic time when
// EXPECTED messages were handled; after SIGTERM, as JSON, when each numbered message came.
const [peerName, settingName, url, expected] = process.argv.slice(2);
const peer = await import(`./${peerName}.mjs`);
const now = () => Number(process.hrtime.bigint()) / 1e9;
const times = {};
let handled = 0;

const stop = await peer.work(url, peer.settings[settingName], (data) => {
    if (data.bad) throw new Error('this one always fails');
    if (data.n !== undefined) times[data.n] ??= now();
    if (++handled === Number(expected)) console.log(`done ${now()}`);
});
console.log('ready');
process.on('SIGTERM', async () => {
    console.log(JSON.stringify({ handled, times }));
    setTimeout(() => process.exit(0), 5000).unref();
    await stop();
    process.exit(0);
});
