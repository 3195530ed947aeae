// Japanese: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "終了しました",
  fair_before: "プレイ前に決まっていたこと",
  fair_text: "結果は、あなたの数値が知られる前に決まっていました。下の数値があれば、誰でも計算し直せます。",
  fair_seed_hash: "秘密の数値のハッシュ（事前に表示）",
  fair_seed: "秘密の数値（事後に表示）",
  fair_client_seed: "あなたの数値",
  fair_check: "今すぐ検証",
  fair_download: "JSONでダウンロード",
  fair_none: "まずプレイしてください。その後、抽選を検証できます。",
  fair_good: "すべて一致しています。",
  fair_bad: "一致しない点があります。",
  fair_step_seed: "秘密の数値のハッシュは、プレイ前に表示されたものと一致します。",
  fair_step_commitment: "約束は、そのハッシュ、ルール、このセッションを結び付けています。",
  fair_step_terms: "ルールは約束されたものと一致します。",
  fair_step_no_terms: "主催者がこのゲームのルールを公開していないため、ここでは抽選を計算し直せません。",
  fair_step_draw: "2つの数値から{word}が得られ、結果は「{drawn}」です。",
  fair_step_nothing: "賞品なし",
  fair_step_same: "お知らせした結果と同じです。",
  fair_step_gone: "お知らせした結果と異なります。その時点で「{drawn}」が品切れだった場合は正しい結果です（適用ルール：「{rule}」）。品切れだったかどうかは、ここでは確認できません。",
  fair_step_other: "お知らせした結果と異なります。",
};
