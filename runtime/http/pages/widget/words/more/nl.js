// Dutch: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "op",
  fair_before: "Vastgelegd voordat je speelde",
  fair_text: "De uitslag lag vast voordat jouw eigen getal bekend was. Met de getallen hieronder kan iedereen het narekenen.",
  fair_seed_hash: "Hash van het geheime getal, vooraf getoond",
  fair_seed: "Het geheime getal, achteraf getoond",
  fair_client_seed: "Je eigen getal",
  fair_check: "Nu controleren",
  fair_download: "Downloaden als JSON",
  fair_none: "Speel eerst: dan is er een trekking om te controleren.",
  fair_good: "Alles klopt.",
  fair_bad: "Er klopt iets niet.",
  fair_step_seed: "Het geheime getal heeft de hash die voor het spel werd getoond.",
  fair_step_commitment: "De belofte verbindt die hash, de regels en deze sessie.",
  fair_step_terms: "De regels zijn de beloofde.",
  fair_step_no_terms: "De organisator maakt de regels van dit spel niet openbaar, dus de trekking is hier niet na te rekenen.",
  fair_step_draw: "Beide getallen samen geven {word}: dat is {drawn}.",
  fair_step_nothing: "geen prijs",
  fair_step_same: "Dat is wat je te zien kreeg.",
  fair_step_gone: "Je kreeg iets anders te zien. Dat klopt als {drawn} toen al op was: de regel daarvoor is “{rule}”. Of het op was, is hier niet te zien.",
  fair_step_other: "Je kreeg iets anders te zien.",
};
