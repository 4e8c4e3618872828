// Receive webhooks of Postrider, and of everybody else who signs as Standard Webhooks says.
//
//     endpoints: {shop: {url: "http://127.0.0.1:8080/", allow_networks: [127.0.0.0/8], sign: "${SECRET}"}}   # postrider.yaml
//
//     SECRET=whsec_... node webhook.mjs 8080
import http from 'node:http';
import { verifyWebhook, WebhookError } from '../clients/node/postrider.mjs';

http.createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    try {
        const message = verifyWebhook(process.env.SECRET, request.headers, body);
        // The id is the same when it comes again: keep it in the transaction of what you do.
        console.log(request.headers['ce-type'], message, body.toString());
        response.writeHead(204).end();
    } catch (why) {
        if (!(why instanceof WebhookError)) throw why;
        response.writeHead(401).end(why.message);
    }
}).listen(Number(process.argv[2]), '127.0.0.1');
