// French: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "épuisé",
  fair_before: "Fixé avant votre partie",
  fair_text: "Le résultat était fixé avant que votre nombre ne soit connu. Avec les nombres ci-dessous, chacun peut le recalculer.",
  fair_seed_hash: "Empreinte du nombre secret, montrée avant",
  fair_seed: "Le nombre secret, montré après",
  fair_client_seed: "Votre propre nombre",
  fair_check: "Vérifier maintenant",
  fair_download: "Télécharger en JSON",
  fair_none: "Jouez d’abord : il y aura alors un tirage à vérifier.",
  fair_good: "Tout concorde.",
  fair_bad: "Quelque chose ne concorde pas.",
  fair_step_seed: "Le nombre secret a bien l’empreinte montrée avant la partie.",
  fair_step_commitment: "L’engagement lie cette empreinte, les règles et cette session.",
  fair_step_terms: "Les règles sont bien celles qui étaient promises.",
  fair_step_no_terms: "L’organisateur ne publie pas les règles de ce jeu : le tirage ne peut pas être recalculé ici.",
  fair_step_draw: "Les deux nombres donnent {word} : c’est {drawn}.",
  fair_step_nothing: "aucun lot",
  fair_step_same: "C’est bien ce qui vous a été annoncé.",
  fair_step_gone: "On vous a annoncé autre chose. C’est normal si {drawn} était déjà épuisé : la règle est alors « {rule} ». On ne peut pas voir ici s’il l’était.",
  fair_step_other: "On vous a annoncé autre chose.",
};
