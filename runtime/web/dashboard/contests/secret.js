// The signing secret of a quest's events, shown once, with an example request.
import { html } from "../lib.js";
import { Dialog } from "../parts/dialog.js";
import { SecretField } from "../parts/secret.js";
import { me } from "../session.js";
import { say } from "../words.js";

/** The example of docs/how-to/listen-to-events.md for this quest. @param {any} quest */
const call = (quest) => `ADMIN_URL=${location.origin}
TENANT=${me.value?.tenant_id}
QUEST=${quest.id}
SECRET=${quest.secret}
BODY='{"event_id": "newsletter-4711", "player_id": "customer-81"}'
ID="msg_$(openssl rand -hex 12)"
NOW=$(date +%s)
KEY=$(printf %s "\${SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')
SIGNATURE=$(printf %s "$ID.$NOW.$BODY" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | openssl base64 -A)
curl -sS "$ADMIN_URL/api/v1/quests/$QUEST/events?tenant_id=$TENANT" -H "webhook-id: $ID" -H "webhook-timestamp: $NOW" \\
  -H "webhook-signature: v1,$SIGNATURE" --data-binary "$BODY"`;

/** @param {{quest: any, close: () => void}} props */
export function Secret({ quest, close }) {
  return html`<${Dialog} title=${say("quests.secret_title", quest)} close=${close}>
    <p>${say("quests.secret_text")}</p>
    <${SecretField} secret=${quest.secret} />
    <h3>${say("quests.call")}</h3>
    <pre tabindex="0" role="region" aria-label=${say("quests.call")}><code>${call(quest)}</code></pre>
    <footer><button type="button" class="secondary outline" onClick=${close}>${say("close")}</button></footer>
  <//>`;
}
