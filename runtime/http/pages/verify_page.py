"""The page that checks the receipt of a play in the browser, at /verify.

It runs runtime/web/verifiers/verify.mjs and sends nothing.
"""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Final, NamedTuple

from aiohttp import web

from runtime.http.pages.files import files
from runtime.http.pages.hosted import HEADERS, language_of, policy_of, styles_of, whole_page
from runtime.http.pages.static_documents import Document, built_once


class VerifyTexts(NamedTuple):
    """The texts of one language. good, bad, unreadable, insecure: what the page says about a file."""

    title: str
    lead: str
    choose: str
    good: str
    bad: str
    unreadable: str
    insecure: str


VERIFY_TEXTS: Final = {
    "en": VerifyTexts(
        "Verify a receipt",
        "The file is checked in your browser. Nothing is sent.",
        "Choose the receipt of a play, or drop it here",
        "No check failed.",
        "A check failed.",
        "This file is not the receipt of a play.",
        "Your browser checks receipts only on pages over HTTPS.",
    ),
    "de": VerifyTexts(
        "Beleg prüfen",
        "Die Datei wird in deinem Browser geprüft. Nichts wird gesendet.",
        "Wähle den Beleg eines Spiels aus oder zieh ihn hierher",
        "Keine Prüfung ist fehlgeschlagen.",
        "Eine Prüfung ist fehlgeschlagen.",
        "Diese Datei ist kein Beleg eines Spiels.",
        "Dein Browser prüft Belege nur auf Seiten mit HTTPS.",
    ),
    "fr": VerifyTexts(
        "Vérifier un reçu",
        "Le fichier est vérifié dans votre navigateur. Rien n’est envoyé.",
        "Choisissez le reçu d’une partie, ou déposez-le ici",
        "Aucune vérification n’a échoué.",
        "Une vérification a échoué.",
        "Ce fichier n’est pas le reçu d’une partie.",
        "Votre navigateur ne vérifie les reçus que sur les pages en HTTPS.",
    ),
    "es": VerifyTexts(
        "Verificar un comprobante",
        "El archivo se verifica en tu navegador. No se envía nada.",
        "Elige el comprobante de una partida o suéltalo aquí",
        "No ha fallado ninguna comprobación.",
        "Ha fallado una comprobación.",
        "Este archivo no es el comprobante de una partida.",
        "Tu navegador solo verifica comprobantes en páginas con HTTPS.",
    ),
    "it": VerifyTexts(
        "Verifica una ricevuta",
        "Il file viene verificato nel tuo browser. Non viene inviato nulla.",
        "Scegli la ricevuta di una partita o trascinala qui",
        "Nessun controllo è fallito.",
        "Un controllo è fallito.",
        "Questo file non è la ricevuta di una partita.",
        "Il tuo browser verifica le ricevute solo su pagine HTTPS.",
    ),
    "pt": VerifyTexts(
        "Verificar um recibo",
        "O ficheiro é verificado no teu navegador. Nada é enviado.",
        "Escolhe o recibo de uma jogada ou larga-o aqui",
        "Nenhuma verificação falhou.",
        "Uma verificação falhou.",
        "Este ficheiro não é o recibo de uma jogada.",
        "O teu navegador só verifica recibos em páginas com HTTPS.",
    ),
    "nl": VerifyTexts(
        "Een bewijs controleren",
        "Het bestand wordt in je browser gecontroleerd. Er wordt niets verzonden.",
        "Kies het bewijs van een spelbeurt of sleep het hierheen",
        "Geen enkele controle is mislukt.",
        "Een controle is mislukt.",
        "Dit bestand is geen bewijs van een spelbeurt.",
        "Je browser controleert bewijzen alleen op pagina’s met HTTPS.",
    ),
    "pl": VerifyTexts(
        "Sprawdź potwierdzenie",
        "Plik jest sprawdzany w Twojej przeglądarce. Nic nie jest wysyłane.",
        "Wybierz potwierdzenie gry lub upuść je tutaj",
        "Żadne sprawdzenie nie zakończyło się błędem.",
        "Jedno ze sprawdzeń zakończyło się błędem.",
        "Ten plik nie jest potwierdzeniem gry.",
        "Przeglądarka sprawdza potwierdzenia tylko na stronach z HTTPS.",
    ),
    "tr": VerifyTexts(
        "Makbuzu doğrula",
        "Dosya tarayıcınızda doğrulanır. Hiçbir şey gönderilmez.",
        "Bir oyunun makbuzunu seçin veya buraya bırakın",
        "Hiçbir kontrol başarısız olmadı.",
        "Bir kontrol başarısız oldu.",
        "Bu dosya bir oyunun makbuzu değil.",
        "Tarayıcınız makbuzları yalnızca HTTPS sayfalarında doğrular.",
    ),
    "ar": VerifyTexts(
        "التحقق من إيصال",
        "يُفحص الملف في متصفحك. لا يُرسل أي شيء.",
        "اختر إيصال إحدى اللعبات أو أفلته هنا",
        "لم يفشل أي فحص.",
        "فشل أحد الفحوص.",
        "هذا الملف ليس إيصال لعبة.",
        "لا يفحص متصفحك الإيصالات إلا في صفحات HTTPS.",
    ),
    "ja": VerifyTexts(
        "レシートを検証",
        "ファイルはブラウザー内で検証されます。何も送信されません。",
        "プレイのレシートを選択するか、ここにドロップしてください",
        "失敗した検証はありません。",
        "検証に失敗した項目があります。",
        "このファイルはプレイのレシートではありません。",
        "お使いのブラウザーは HTTPS のページでのみレシートを検証できます。",
    ),
    "zh": VerifyTexts(
        "验证凭证",
        "文件在您的浏览器中验证，不会发送任何内容。",
        "选择一次游戏的凭证，或将其拖放到此处",
        "没有检查失败。",
        "有一项检查失败。",
        "此文件不是游戏凭证。",
        "您的浏览器只能在 HTTPS 页面上验证凭证。",
    ),
}


def mount(app: web.Application) -> None:
    """Adds the page."""
    pages = {language: built_once(partial(_page, language)) for language in VERIFY_TEXTS}

    async def answer(request: web.Request) -> web.StreamResponse:
        return await pages[language_of(request.headers.get("Accept-Language", ""))](request)

    app.router.add_get("/verify", answer)


def _page(language: str) -> Document:
    found, texts = files(), VERIFY_TEXTS[language]
    loads = (
        f'<link rel="stylesheet" href="{found.address("verify.css")}">\n'
        f'<script type="module" src="{found.address("verify.js")}"></script>\n'
    )
    says = " ".join(
        f'data-{name}="{escape(getattr(texts, name))}"' for name in ("good", "bad", "unreadable", "insecure")
    )
    body = (
        f'<main class="verify" {says}>\n<h1>{escape(texts.title)}</h1>\n<p class="lead">{escape(texts.lead)}</p>\n'
        f'<label>{escape(texts.choose)}<input type="file" accept="application/json,.json"></label>\n'
        '<p role="status"></p>\n<ul lang="en" dir="ltr"></ul>\n</main>'
    )
    page = whole_page(title=texts.title, description=texts.lead, loads=loads, body=body, language=language).encode()
    policy = policy_of((), styles_of(page))
    return Document.of(page, {**HEADERS, "Vary": "Accept-Language", "Content-Security-Policy": policy})
