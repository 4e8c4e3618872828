#!/usr/bin/env python3
"""Receive webhooks of Postrider, and of everybody else who signs as Standard Webhooks says.

    endpoints: {shop: {url: "http://127.0.0.1:8080/", allow_networks: [127.0.0.0/8], sign: "${SECRET}"}}   # postrider.yaml

    SECRET=whsec_... PYTHONPATH=clients/python python3 webhook.py 8080
"""
import http.server
import os
import sys

import postrider


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            message = postrider.verify_webhook(os.environ["SECRET"], self.headers, body)
        except postrider.WebhookError as why:
            return self.send_error(401, str(why))
        # The id is the same when it comes again: keep it in the transaction of what you do.
        print(self.headers["ce-type"], message, body.decode(), flush=True)
        self.send_response(204)
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hook).serve_forever()
