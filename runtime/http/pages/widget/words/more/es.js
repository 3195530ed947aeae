// Spanish: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "agotado",
  fair_before: "Fijado antes de tu jugada",
  fair_text: "El resultado estaba fijado antes de conocerse tu número. Con los números de abajo, cualquiera puede recalcularlo.",
  fair_seed_hash: "Hash del número secreto, mostrado antes",
  fair_seed: "El número secreto, mostrado después",
  fair_client_seed: "Tu propio número",
  fair_check: "Comprobar ahora",
  fair_download: "Descargar como JSON",
  fair_none: "Juega primero: luego habrá un sorteo que comprobar.",
  fair_good: "Todo encaja.",
  fair_bad: "Algo no encaja.",
  fair_step_seed: "El número secreto tiene el hash que se mostró antes de jugar.",
  fair_step_commitment: "El compromiso une ese hash, las reglas y esta sesión.",
  fair_step_terms: "Las reglas son las prometidas.",
  fair_step_no_terms: "El organizador no publica las reglas de este juego, así que el sorteo no se puede recalcular aquí.",
  fair_step_draw: "Los dos números juntos dan {word}: eso es {drawn}.",
  fair_step_nothing: "ningún premio",
  fair_step_same: "Es lo que se te comunicó.",
  fair_step_gone: "Se te comunicó otra cosa. Es correcto si {drawn} ya estaba agotado: la regla para ello es «{rule}». Aquí no se puede ver si lo estaba.",
  fair_step_other: "Se te comunicó otra cosa.",
};
