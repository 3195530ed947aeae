// Portuguese: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "esgotado",
  fair_before: "Definido antes de você jogar",
  fair_text: "O resultado foi definido antes que o seu número fosse conhecido. Com os números abaixo, qualquer pessoa pode recalculá-lo.",
  fair_seed_hash: "Hash do número secreto, mostrado antes",
  fair_seed: "O número secreto, mostrado depois",
  fair_client_seed: "O seu próprio número",
  fair_check: "Conferir agora",
  fair_download: "Baixar como JSON",
  fair_none: "Jogue primeiro: depois haverá um sorteio para conferir.",
  fair_good: "Tudo confere.",
  fair_bad: "Algo não confere.",
  fair_step_seed: "O número secreto tem o hash mostrado antes da jogada.",
  fair_step_commitment: "O compromisso une esse hash, as regras e esta sessão.",
  fair_step_terms: "As regras são as prometidas.",
  fair_step_no_terms: "O organizador não publica as regras deste jogo, então o sorteio não pode ser recalculado aqui.",
  fair_step_draw: "Os dois números juntos dão {word}: isto é, {drawn}.",
  fair_step_nothing: "nenhum prêmio",
  fair_step_same: "É o que foi mostrado a você.",
  fair_step_gone: "Foi mostrado outro resultado. Isso está certo se {drawn} já estava esgotado: a regra nesse caso é “{rule}”. Aqui não dá para ver se estava.",
  fair_step_other: "Foi mostrado outro resultado.",
};
