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
  loading: "Loading game …",

  // how much is left
  plays_left: { one: "{count} play left", other: "{count} plays left" },
  turns_left: { one: "{count} turn left", other: "{count} turns left" },

  // what came of it
  won: "You won!",
  lost: "No prize this time",
  lost_more: "Better luck next time!",
  credited: "{count} × {name}",
  turns_won: { one: "{count} more turn", other: "{count} more turns" },
  code: "Your code",
  copy: "Copy",
  copied: "Copied",
  earlier: "This is the result of your last play.",

  // the games
  wheel: "Wheel with {count} segments: {fields}",
  scratch_hint: "Scratch here",
  scratch_how: "Scratch the card with your finger, the mouse or the button.",
  scratched: { one: "{count}% scratched", other: "{count}% scratched" },

  // waiting
  OFFLINE: "You are offline. Your play is saved and continues when you are back online.",
  waiting: "This is taking longer than usual. Your play is saved.",

  // refusals, by their reason
  refused: "This is not available right now. Try again later.",
  CAP_DAY: "You have no plays left today.",
  CAP_USER: "You have no plays left.",
  NO_TURNS: "You have no turns left.",
  ENTRY_REQUIRED: "Please complete the form to continue.",
  NOT_ELIGIBLE: "You cannot take part in this promotion.",
  GAME_INACTIVE: "This game is currently closed.",
  CAMPAIGN_CLOSED: "This promotion has ended or has not started yet.",
  NOT_STARTED: "This game has not started yet.",
  starts_at: "Starts: {when}",
  PAUSED: "This game is paused. Please come back later.",
  ENDED: "This game has ended.",
  claims_until: "Prizes can be claimed until {when}.",
  SOLD_OUT: "All prizes have been won.",
  sold_out_more: "You can still play for fun.",
  LOGIN_REQUIRED: "Please sign in to play.",
  TOKEN_EXPIRED: "Your session has expired. Please sign in again.",
  SESSION_EXPIRED: "Time is up. Please play again.",
  GAME_CHANGED: "This game was just updated. Please play again. Your play was not used.",
  UNKNOWN_GAME: "This game does not exist or has ended.",
  RATE_LIMITED: "Too many requests. Please wait a moment.",
  SUSPENDED: "Your account is suspended.",
  NO_ANSWER: "Connection problem. Your play is saved. Please try again.",
  broken: "Something went wrong. Your play is saved. Please try again.",
  back_at: "Next play: {when} ({until})",
  day_time: "{day}, {time}",

  // panels
  panels: "More about this game",
  close: "Close",
  prizes: "Prizes",
  fair: "Verify this draw",
  login: "Sign in",
  keep: "Sign in to keep it",
  entry: "Take part",
  signed_in: "Signed in as {name}",
  rewards: "My rewards",
  claim: "Claim",
  see_code: "Show code",
  unclaimed: "{count} to claim",
  milestones: "Milestones",
  quests: "Quests",
  codes: "Enter a code",
  draws: "Prize draws",
  ranking: "Leaderboard",
  wallet: "Wallet",
  history: "My plays",

  // sound
  sound: "Sound",

  // catchers and collections
  eggs_how: "Catch them before they hit the ground. Use your finger, the mouse, or the ← and → keys.",
  gifts_how: "Catch what you like. Use your finger, the mouse, or the ← and → keys.",
  calm: "Reduced motion",
  pause: "Pause",
  go_on: "Continue",
  score: { one: "{count} point", other: "{count} points" },
  lives: { one: "{count} life left", other: "{count} lives left" },
  caught: { one: "{count} caught", other: "{count} caught" },
  pick: "Pick what you like, then continue.",
  draw: "Draw a card",
  reached: "Reached",
  redeem: "Redeem",
};
