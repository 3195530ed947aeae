"""An example of an issuer: .venv/bin/python issuer.py [PORT]

GET /jwks              its public keys, which Tombola fetches
GET /token?sub=ada     a token for that user; &roles=marketing makes staff
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 9100
KEY = ec.generate_private_key(ec.SECP256R1())
JWK = {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": "key-1", "alg": "ES256", "use": "sig"}


def token(claims):
    now = int(time.time())
    base = {"iss": "https://login.example", "aud": "tombola-app", "iat": now, "exp": now + 900}
    roles = claims.pop("roles", "").split()
    return jwt.encode({**base, **claims, "roles": roles}, KEY, algorithm="ES256", headers={"kid": "key-1"})


class Issuer(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        said = json.dumps({"keys": [JWK]}) if url.path == "/jwks" else token(dict(parse_qsl(url.query)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Issuer).serve_forever()
