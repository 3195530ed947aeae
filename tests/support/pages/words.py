import re
from typing import Any, Final

OTHERS: Final = ("de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja", "zh")
ALL_WORDS: Final = """async ([address, languages]) => {
    const { LANGUAGES, en } = await import(address);
    const of = async (path) => (await import(new URL(path, address).href)).default;
    const words = { en: { game: en, panels: await of("words/more/en.js") } };
    for (const one of languages)
        words[one] = { game: await of(`words/${one}.js`), panels: await of(`words/more/${one}.js`) };
    const plurals = (one) => new Intl.PluralRules(one).resolvedOptions().pluralCategories;
    return [LANGUAGES, words, Object.fromEntries(Object.keys(words).map((one) => [one, plurals(one)]))];
}"""
AS_IN_ENGLISH: Final = {"credited", "day_time", "has", "rank_prize"}
"""Keys whose words may be the same in every language: signs and names alone."""

LOAN_WORDS: Final = {
    *((language, "login_code") for language in ("de", "fr", "nl")),
    *((language, "login_email") for language in ("fr", "it", "pt", "nl", "pl")),
    *((language, "pause") for language in ("de", "fr")),
    ("fr", "needs_POINTS"),
    *((language, "address_region") for language in ("de", "pl")),
}
"""(language, key) of words that the language has taken from English, or shares with it."""


def texts(value: Any) -> dict[str, str]:
    """{plural category: text}; {"": text} of words without plurals."""
    return value if isinstance(value, dict) else {"": value}


def placeholders(value: Any) -> set[str]:
    return {name for text in texts(value).values() for name in re.findall(r"\{(\w+)\}", text)}


def differences(name: str, english: Any, own: Any, plurals: list[str]) -> list[str]:
    """What a language's words of one key lack of the English ones."""
    wrong = []
    said = texts(own)
    if isinstance(english, dict) and set(said) != set(plurals):
        wrong.append(f"{name}: {sorted(said)} are not its plurals {sorted(plurals)}")
    if not isinstance(english, dict) and isinstance(own, dict):
        wrong.append(f"{name} has plurals, English has none")
    # "one", "two" and "zero" may write the number in words.
    counted = [text for category, text in said.items() if category not in ("zero", "one", "two")]
    if placeholders(own) != placeholders(english) or any(placeholders(one) != placeholders(english) for one in counted):
        wrong.append(f"{name}: its {{names}} are not those of English")
    if not all(text.strip() for text in said.values()):
        wrong.append(f"{name} is empty")
    return wrong
