// Does activities of flows, written for Node. The flow itself is a C function of another program; see doc/flows.md.
//
//     endpoints: {workers: {url: "pull:", timeout: 30s}}
//     routes: [{box: activities, type: "card.*", to: workers}]
//     http: {listen: 127.0.0.1:8026}
//
//     node flow_activity.mjs http://127.0.0.1:8026
import { ActivityFailed, ActivityWorker } from "../clients/node/postrider.mjs";

const worker = new ActivityWorker(process.argv[2], { token: process.env.POSTRIDER_TOKEN });

worker.activity("card.charge", async (activity) => {
  const order = activity.json();
  if (order.total > 1000) throw new ActivityFailed("the card is declined", { retryable: false });
  // A real one passes activity.id to the bank: it is the same in each attempt, so the customer pays once.
  return { receipt: `r-${order.order}`, total: order.total };
});

process.on("SIGTERM", () => worker.stop());
await worker.run();
