// Italian: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "esaurito",
  fair_before: "Fissato prima della tua giocata",
  fair_text: "Il risultato era fissato prima che si conoscesse il tuo numero. Con i numeri qui sotto chiunque può ricalcolarlo.",
  fair_seed_hash: "Hash del numero segreto, mostrato prima",
  fair_seed: "Il numero segreto, mostrato dopo",
  fair_client_seed: "Il tuo numero",
  fair_check: "Verifica ora",
  fair_download: "Scarica come JSON",
  fair_none: "Prima gioca: poi ci sarà un’estrazione da verificare.",
  fair_good: "Tutto torna.",
  fair_bad: "Qualcosa non torna.",
  fair_step_seed: "Il numero segreto ha l’hash mostrato prima della giocata.",
  fair_step_commitment: "La promessa lega quell’hash, le regole e questa sessione.",
  fair_step_terms: "Le regole sono quelle promesse.",
  fair_step_no_terms: "L’organizzatore non pubblica le regole di questo gioco, quindi l’estrazione non si può ricalcolare qui.",
  fair_step_draw: "I due numeri insieme danno {word}: cioè {drawn}.",
  fair_step_nothing: "nessun premio",
  fair_step_same: "È quello che ti è stato detto.",
  fair_step_gone: "Ti è stato detto altro. È corretto se {drawn} era già esaurito: la regola in quel caso è “{rule}”. Se lo fosse, qui non si può vedere.",
  fair_step_other: "Ti è stato detto altro.",
};
