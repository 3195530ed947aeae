"""An example issuer: .venv/bin/python issuer.py [PORT]

GET /jwks              the public keys, which Tombola fetches
GET /token?sub=ada     a token for that user; &roles=marketing makes it a staff token
"""

import json
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 9100
KEY = ec.generate_private_key(ec.SECP256R1())
KID = uuid.uuid4().hex  # A new key needs a new id: Tombola keeps the key that it fetched for an id.
JWK = {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": KID, "alg": "ES256", "use": "sig"}


def token(claims):
    now = int(time.time())
    base = {"iss": "https://login.example", "aud": "tombola-app", "iat": now, "exp": now + 900}
    roles = claims.pop("roles", "").split()
    return jwt.encode({**base, **claims, "roles": roles}, KEY, algorithm="ES256", headers={"kid": KID})


class Issuer(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        body = json.dumps({"keys": [JWK]}) if url.path == "/jwks" else token(dict(parse_qsl(url.query)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Issuer).serve_forever()
