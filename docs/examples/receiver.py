"""Receives deliveries of prizes: SECRET=whsec_... python3 receiver.py [PORT]

POST /webhook   delivers while Tombola waits: 204 means that the prize is delivered
POST /workflow  accepts the order: 202 means accepted, and a signed callback confirms the delivery later
"""

import base64
import hmac
import json
import os
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
DATABASE = "deliveries.sqlite"


def sign(message_id, timestamp, body):
    """The signature of Standard Webhooks: HMAC-SHA256 over id, timestamp and the raw body, joined by dots."""
    digest = hmac.digest(KEY, f"{message_id}.{timestamp}.".encode() + body, "sha256")
    return "v1," + base64.b64encode(digest).decode()


def is_signed(headers, body):
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    fresh = timestamp.isdigit() and abs(time.time() - int(timestamp)) <= 300
    # During a secret rotation there are two signatures. One valid signature is enough.
    return fresh and any(
        hmac.compare_digest(sign(message_id, timestamp, body), one)
        for one in headers.get("webhook-signature", "").split()
    )


def deliver_once(task):
    """Delivers a task, unless an earlier attempt did. A retry has the id of the first attempt.

    The id is committed after the delivery. If the process ends in between, the retry delivers again: deduplicate by the
    id. In the other order, the prize would never be sent.
    """
    with sqlite3.connect(DATABASE) as database:  # Commits at its end; not after an exception.
        database.execute("CREATE TABLE IF NOT EXISTS deliveries (task_id TEXT PRIMARY KEY)")
        if database.execute("INSERT OR IGNORE INTO deliveries VALUES (?)", (task["id"],)).rowcount == 1:
            print("deliver", task["data"]["reward"]["name"], "to", task["data"]["player_id"], flush=True)


def call_back(url):
    """Confirms the delivery, and retries without a final response: a repeated callback changes nothing.

    Store the pending callbacks, so that a restart of your system does not lose them.
    """
    body = json.dumps({"status": "delivered", "external_id": "shipment-1"}).encode()
    message_id = f"msg_{uuid.uuid4().hex}"
    for pause in (1, 5, 30, 300, 1800):
        timestamp = str(int(time.time()))
        headers = {"Content-Type": "application/json", "webhook-id": message_id, "webhook-timestamp": timestamp}
        headers["webhook-signature"] = sign(message_id, timestamp, body)
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=15) as answer:
                print("called back", answer.status, flush=True)
                return
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (429, 503):
                raise
        except OSError:
            pass  # No response.
        time.sleep(pause)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not is_signed(self.headers, body):
            return self.answer(401)
        task = json.loads(body)
        deliver_once(task)
        if self.path == "/workflow":
            threading.Timer(1, call_back, [task["data"]["callback_url"]]).start()
            return self.answer(202)
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Receiver).serve_forever()
