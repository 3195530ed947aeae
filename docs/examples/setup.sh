API=http://127.0.0.1:8081/api/v1
ADMIN=http://127.0.0.1:8082/api/v1/admin
AUTH="Authorization: Bearer $(python3 -c 'import json; print(json.load(open("ready.json"))["admin_token"])')"
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['data']['$1'])"; }
