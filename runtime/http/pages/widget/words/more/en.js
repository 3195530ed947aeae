// English: what the panels say. Loaded with the first of them.

export default {
  prize_gone: "all gone",
  fair_before: "Fixed before you played",
  fair_text: "The result was fixed before your own number was known. Whoever has the numbers below can work it out again.",
  fair_seed_hash: "Hash of the secret number, shown before",
  fair_seed: "The secret number, shown after",
  fair_client_seed: "Your own number",
  fair_check: "Check it now",
  fair_download: "Download as JSON",
  fair_none: "Play first: then there is a draw to check.",
  fair_good: "Everything fits.",
  fair_bad: "Something does not fit.",
  fair_step_seed: "The secret number has the hash that was shown before the play.",
  fair_step_commitment: "The promise binds that hash, the rules and this session.",
  fair_step_terms: "The rules are the ones that were promised.",
  fair_step_no_terms: "The operator does not publish the rules of this game, so the draw itself cannot be worked out here.",
  fair_step_draw: "Both numbers together give {word}: that is {drawn}.",
  fair_step_nothing: "no prize",
  fair_step_same: "That is what you were told.",
  fair_step_gone: "You were told otherwise. That is right if {drawn} was gone by then: the rule for it is “{rule}”. Whether it was gone cannot be seen here.",
  fair_step_other: "You were told something else.",
};
