// Polish: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "wyczerpane",
  fair_before: "Ustalone przed Twoją grą",
  fair_text: "Wynik był ustalony, zanim poznano Twoją liczbę. Mając poniższe liczby, każdy może go przeliczyć.",
  fair_seed_hash: "Skrót tajnej liczby, pokazany przed grą",
  fair_seed: "Tajna liczba, pokazana po grze",
  fair_client_seed: "Twoja własna liczba",
  fair_check: "Sprawdź teraz",
  fair_download: "Pobierz jako JSON",
  fair_none: "Najpierw zagraj: wtedy będzie losowanie do sprawdzenia.",
  fair_good: "Wszystko się zgadza.",
  fair_bad: "Coś się nie zgadza.",
  fair_step_seed: "Tajna liczba ma skrót pokazany przed grą.",
  fair_step_commitment: "Zobowiązanie łączy ten skrót, zasady i tę sesję.",
  fair_step_terms: "Zasady są takie, jak obiecano.",
  fair_step_no_terms: "Organizator nie publikuje zasad tej gry, więc losowania nie da się tu przeliczyć.",
  fair_step_draw: "Obie liczby razem dają {word}: to {drawn}.",
  fair_step_nothing: "brak nagrody",
  fair_step_same: "Właśnie taki wynik pokazano.",
  fair_step_gone: "Pokazano inny wynik. To w porządku, jeśli nagroda {drawn} była już wyczerpana: obowiązuje wtedy zasada „{rule}”. Nie da się tu stwierdzić, czy tak było.",
  fair_step_other: "Pokazano inny wynik.",
};
