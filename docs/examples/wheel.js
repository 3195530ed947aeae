// Your own wheel with Tombola's HTTP API. Open wheel.html?game=game_...
const API = "http://127.0.0.1:8081/api/v1";
const GAME = new URLSearchParams(location.search).get("game");
const at = (id) => document.getElementById(id);
const login = () => JSON.parse(localStorage.login ?? "null"); // The response of /players/auth/verify.
let segments = [];
let claimable = []; // The ids of prizes that the winner must claim.
let angle = 0;
let challenge, reward;

async function ask(method, path, body, key) {
  const token = login()?.token ?? localStorage.guest;
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (key) headers["Idempotency-Key"] = key;
  for (let tries = 1; ; tries++) {
    const answer = await fetch(API + path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
    // No response, or a busy service: the action may have taken effect. The same key makes a retry safe.
    if ((!answer || answer.status === 503) && (method === "GET" || key) && tries < 5) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * tries));
      continue;
    }
    if (!answer) throw new Error("No connection. Try again.");
    const { code, message, data } = await answer.json();
    if (code === "OK") return data;
    if (data.reason === "TOKEN_EXPIRED" && login() && path !== "/players/auth/refresh") {
      const refresh_token = login().refresh_token; // It can be used once: store the new one.
      localStorage.login = JSON.stringify(await ask("POST", "/players/auth/refresh", { refresh_token }));
      return ask(method, path, body, key);
    }
    // Forget a token that is refused, or expired without a refresh. Otherwise every later request would fail.
    if (["TOKEN_INVALID", "TOKEN_EXPIRED"].includes(data.reason)) localStorage.removeItem(login() ? "login" : "guest");
    throw Object.assign(new Error(message), data);
  }
}

async function showStanding() {
  const { can_play, reason, free_plays_remaining } = await ask("GET", `/games/${GAME}/eligibility`);
  at("play").disabled = !can_play;
  at("play").textContent = can_play ? `Spin (${free_plays_remaining < 0 ? "no limit" : free_plays_remaining})` : reason;
}

async function play() {
  at("result").textContent = "...";
  const session = await ask("POST", `/games/${GAME}/start`, {}, crypto.randomUUID());
  if (session.guest_token) localStorage.guest = session.guest_token; // Only this browser can act for the guest.
  const body = { session_id: session.session_id, payload: {} };
  const { rewards, metadata } = await ask("POST", `/games/${GAME}/play`, body, crypto.randomUUID());
  if (metadata.slot_index >= 0) {
    const turn = 360 / segments.length;
    // Always forwards: with a fixed number of turns, the same segment twice in a row would not move the wheel.
    angle = (Math.ceil(angle / 360) + 4) * 360 - (metadata.slot_index + 0.5) * turn;
    at("wheel").style.transform = `rotate(${angle}deg)`;
  }
  reward = rewards.find((one) => claimable.includes(one.prize_id)); // Other prizes are delivered or credited already.
  at("result").textContent = rewards.length ? `You won: ${rewards.map((one) => one.name).join(", ")}` : "Nothing this time.";
  at("claim").hidden = !reward;
  await showStanding();
}

async function claim() {
  const claimed = await ask("POST", `/rewards/${reward.reward_id}/claim`, {}, crypto.randomUUID());
  at("result").textContent = `${claimed.name} is yours. ${claimed.code ? `Your code: ${claimed.code}` : ""}`;
  at("claim").hidden = true;
}

async function signIn() {
  if (!challenge) {
    challenge = await ask("POST", "/players/auth/start", { contact_type: "CONTACT_TYPE_EMAIL", contact: at("email").value });
    at("code").hidden = false;
    return;
  }
  const entered = { challenge_id: challenge.challenge_id, code: at("code").value };
  const verified = await ask("POST", "/players/auth/verify", entered).catch((error) => { // Sends the guest's token.
    // Forget a challenge that has ended. Otherwise no new code could be sent.
    if (["CODE_EXPIRED", "UNKNOWN_CHALLENGE"].includes(error.reason) || error.attempts_left === 0) forgetChallenge();
    throw error;
  });
  const { guest_merged, ...tokens } = verified;
  localStorage.login = JSON.stringify(tokens);
  if (guest_merged) localStorage.removeItem("guest"); // The guest was merged. Otherwise keep its token.
  showLogin();
  await showStanding();
}

function forgetChallenge() {
  challenge = undefined;
  at("code").value = "";
  at("code").hidden = true; // The next submit sends a new code.
}

function showLogin() {
  if (login()) at("login").textContent = `Signed in as ${login().player.contacts[0].value}`;
}

const say = (act) => (event) => (event?.preventDefault(), act().catch((error) => (at("result").textContent = error.message)));
at("play").onclick = say(play);
at("claim").onclick = say(claim);
at("login").onsubmit = say(signIn);
say(async () => {
  const game = await ask("GET", `/games/${GAME}/render`);
  segments = game.ui.wheel.segments;
  claimable = game.prizes.filter((one) => one.needs_claim).map((one) => one.prize_id);
  at("name").textContent = game.name;
  at("labels").textContent = segments.map((one) => one.label).join(" - ");
  const colours = segments.map((_, n) => `hsl(${(n * 360) / segments.length} 70% 60%) 0 ${((n + 1) * 360) / segments.length}deg`);
  at("wheel").style.background = `conic-gradient(${colours.join(", ")})`;
  await showStanding();
  showLogin();
})();
