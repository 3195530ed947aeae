// German: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "vergriffen",
  fair_before: "Vor deinem Spiel festgelegt",
  fair_text: "Das Ergebnis stand fest, bevor deine eigene Zahl bekannt war. Wer die Zahlen unten hat, kann es nachrechnen.",
  fair_seed_hash: "Hash der geheimen Zahl, vorher gezeigt",
  fair_seed: "Die geheime Zahl, nachher gezeigt",
  fair_client_seed: "Deine eigene Zahl",
  fair_check: "Jetzt prüfen",
  fair_download: "Als JSON herunterladen",
  fair_none: "Spiel zuerst: Dann gibt es eine Ziehung zu prüfen.",
  fair_good: "Alles passt zusammen.",
  fair_bad: "Etwas passt nicht zusammen.",
  fair_step_seed: "Die geheime Zahl hat den Hash, der vor dem Spiel gezeigt wurde.",
  fair_step_commitment: "Die Zusage umfasst diesen Hash, die Regeln und diese Runde.",
  fair_step_terms: "Die Regeln sind die zugesagten.",
  fair_step_no_terms: "Der Betreiber veröffentlicht die Regeln dieses Spiels nicht, daher lässt sich die Ziehung hier nicht nachrechnen.",
  fair_step_draw: "Beide Zahlen zusammen ergeben {word}: Das ist {drawn}.",
  fair_step_nothing: "kein Gewinn",
  fair_step_same: "Genau das wurde dir gezeigt.",
  fair_step_gone: "Dir wurde etwas anderes gezeigt. Das ist richtig, wenn {drawn} da schon vergriffen war: Die Regel dafür ist „{rule}“. Ob es vergriffen war, ist hier nicht zu sehen.",
  fair_step_other: "Dir wurde etwas anderes gezeigt.",
};
