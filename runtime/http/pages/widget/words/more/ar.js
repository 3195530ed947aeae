// Arabic: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "نفدت",
  fair_before: "ما حُدّد قبل أن تلعب",
  fair_text: "حُدّدت النتيجة قبل أن يُعرف رقمك. من لديه الأرقام أدناه يستطيع حسابها من جديد.",
  fair_seed_hash: "بصمة الرقم السري، عُرضت قبل اللعب",
  fair_seed: "الرقم السري، عُرض بعد اللعب",
  fair_client_seed: "رقمك أنت",
  fair_check: "تحقّق الآن",
  fair_download: "تنزيل بصيغة JSON",
  fair_none: "العب أولًا، ثم يكون هناك سحب تتحقّق منه.",
  fair_good: "كل شيء متطابق.",
  fair_bad: "هناك ما لا يتطابق.",
  fair_step_seed: "بصمة الرقم السري هي التي عُرضت قبل اللعب.",
  fair_step_commitment: "يجمع التعهّد بين تلك البصمة والقواعد وهذه الجلسة.",
  fair_step_terms: "القواعد هي نفسها التي وُعدت بها.",
  fair_step_no_terms: "لا ينشر المنظّم قواعد هذه اللعبة، لذلك لا يمكن حساب السحب هنا.",
  fair_step_draw: "الرقمان معًا يعطيان {word}: أي {drawn}.",
  fair_step_nothing: "لا جائزة",
  fair_step_same: "وهذا ما عُرض عليك.",
  fair_step_gone: "عُرض عليك غير ذلك. هذا صحيح إن كانت {drawn} قد نفدت حينها: القاعدة في ذلك هي «{rule}». لا يمكن أن نرى هنا إن كانت قد نفدت.",
  fair_step_other: "عُرض عليك غير ذلك.",
};
