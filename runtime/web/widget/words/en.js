// English. `{names}` are filled in; an object is chosen from by the plural category of `count`.

export default {
  // the button
  play: "Play",
  spin: "Spin the wheel",
  take_card: "Take a card",
  scratch: "Scratch",
  again: "Play again",
  try_again: "Try again",
  playing: "One moment …",
  loading: "Loading the game …",

  // how much is left
  plays_left: { one: "{count} play left", other: "{count} plays left" },
  turns_left: { one: "{count} turn left", other: "{count} turns left" },

  // what came of it
  won: "You won!",
  lost: "No prize this time",
  lost_more: "Better luck next time.",
  credited: "{count} × {name}",
  turns_won: { one: "{count} more turn", other: "{count} more turns" },
  code: "Your code",
  copy: "Copy",
  copied: "Copied",
  earlier: "This is the result of your previous play.",

  // the games
  wheel: "A wheel with {count} fields: {fields}",
  scratch_hint: "Scratch here",
  scratch_how: "Scratch the card with a finger, the mouse, or the button.",
  scratched: { one: "{count} percent is scratched off", other: "{count} percent is scratched off" },

  // waiting
  OFFLINE: "You are offline. Your play is kept, and goes on by itself.",
  waiting: "That takes longer than usual. Your play is kept.",

  // refusals, by their reason
  refused: "That is not possible right now.",
  CAP_DAY: "You have used all your plays for today.",
  CAP_USER: "You have used all your plays.",
  NO_TURNS: "You have no turns left.",
  GAME_INACTIVE: "This game is closed right now.",
  CAMPAIGN_CLOSED: "This campaign is over, or has not begun.",
  NOT_STARTED: "This game has not started yet.",
  starts_at: "Starts: {when}",
  PAUSED: "This game is paused right now. Please come back later.",
  ENDED: "This game has ended.",
  SOLD_OUT: "All prizes are gone.",
  sold_out_more: "You can still play, but there is nothing left to win.",
  LOGIN_REQUIRED: "Please sign in to play.",
  TOKEN_EXPIRED: "Your sign-in has ended. Please sign in again.",
  SESSION_EXPIRED: "That took too long. Please play again.",
  GAME_CHANGED: "The game has just been changed. Please play again; nothing was used up.",
  UNKNOWN_GAME: "There is no such game, or it is over.",
  RATE_LIMITED: "That was too fast. Please wait a moment.",
  SUSPENDED: "This account cannot play.",
  NO_ANSWER: "No answer came. Your play is kept: try again.",
  broken: "Something went wrong. Your play is kept: try again.",
  back_at: "Next plays: {when} ({until})",
  day_time: "{day}, {time}",

  // panels
  panels: "More about this game",
  close: "Close",
  prizes: "Prizes",
  fair: "Check this draw",
  login: "Sign in",
  keep: "Keep it: sign in",
  signed_in: "Signed in: {name}",
  rewards: "My rewards",
  claim: "Claim",
  see_code: "Show the code",
  unclaimed: "{count} to claim",
  milestones: "Milestones",
  quests: "Quests",
  ranking: "Ranking",
  wallet: "Wallet",
  history: "My plays",

  // sound
  sound: "Sound",

  // catchers and collections
  eggs_how: "Catch them before they touch the ground: with a finger, the mouse, or the keys ← and →.",
  gifts_how: "Catch what you like: with a finger, the mouse, or the keys ← and →.",
  calm: "Calm version",
  pause: "Pause",
  go_on: "Go on",
  score: { one: "{count} point", other: "{count} points" },
  lives: { one: "{count} life left.", other: "{count} lives left." },
  caught: { one: "{count} caught", other: "{count} caught" },
  pick: "Take what you like, then go on.",
  draw: "Draw a card",
  reached: "Reached",
  redeem: "Get it",
};
