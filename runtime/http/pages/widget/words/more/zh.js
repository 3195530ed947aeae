// Chinese: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "已发完",
  fair_before: "在你游戏之前已确定",
  fair_text: "结果在你的数字公开之前就已确定。凭下面的数字，任何人都可以重新计算。",
  fair_seed_hash: "秘密数字的哈希值（事先显示）",
  fair_seed: "秘密数字（事后显示）",
  fair_client_seed: "你自己的数字",
  fair_check: "立即验证",
  fair_download: "下载 JSON",
  fair_none: "请先玩一次，之后才有抽奖可以验证。",
  fair_good: "全部吻合。",
  fair_bad: "有不吻合之处。",
  fair_step_seed: "秘密数字的哈希值与游戏前显示的一致。",
  fair_step_commitment: "承诺将该哈希值、规则和本次会话绑定在一起。",
  fair_step_terms: "规则与承诺的一致。",
  fair_step_no_terms: "主办方未公开此游戏的规则，因此无法在此重新计算抽奖。",
  fair_step_draw: "两个数字合起来得到 {word}，即{drawn}。",
  fair_step_nothing: "没有奖品",
  fair_step_same: "这与告知你的结果一致。",
  fair_step_gone: "告知你的结果与此不同。如果当时{drawn}已发完，这是正确的，适用规则为“{rule}”。在此无法得知当时是否已发完。",
  fair_step_other: "告知你的结果与此不同。",
};
