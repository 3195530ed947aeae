"""The page that checks the receipt of a play, or the file of a prize draw, in the browser, at /verify.

It runs runtime/web/verifiers/verify.mjs and draws.mjs, and sends nothing. The texts about draws are in
runtime/web/hosted/verify_words.js.
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
        "Verify a receipt or a prize draw",
        "The file is checked in your browser. Nothing is sent.",
        "Choose the receipt of a play or the file of a prize draw, or drop it here",
        "No check failed.",
        "A check failed.",
        "This file is not the receipt of a play or the file of a prize draw.",
        "Your browser checks receipts only on pages over HTTPS.",
    ),
    "de": VerifyTexts(
        "Beleg oder Verlosung prüfen",
        "Die Datei wird in deinem Browser geprüft. Nichts wird gesendet.",
        "Wähle den Beleg eines Spiels oder die Datei einer Verlosung aus oder zieh sie hierher",
        "Keine Prüfung ist fehlgeschlagen.",
        "Eine Prüfung ist fehlgeschlagen.",
        "Diese Datei ist weder der Beleg eines Spiels noch die Datei einer Verlosung.",
        "Dein Browser prüft Belege nur auf Seiten mit HTTPS.",
    ),
    "fr": VerifyTexts(
        "Vérifier un reçu ou un tirage au sort",
        "Le fichier est vérifié dans votre navigateur. Rien n’est envoyé.",
        "Choisissez le reçu d’une partie ou le fichier d’un tirage au sort, ou déposez-le ici",
        "Aucune vérification n’a échoué.",
        "Une vérification a échoué.",
        "Ce fichier n’est ni le reçu d’une partie ni le fichier d’un tirage au sort.",
        "Votre navigateur ne vérifie les reçus que sur les pages en HTTPS.",
    ),
    "es": VerifyTexts(
        "Verificar un comprobante o un sorteo",
        "El archivo se verifica en tu navegador. No se envía nada.",
        "Elige el comprobante de una partida o el archivo de un sorteo, o suéltalo aquí",
        "No ha fallado ninguna comprobación.",
        "Ha fallado una comprobación.",
        "Este archivo no es el comprobante de una partida ni el archivo de un sorteo.",
        "Tu navegador solo verifica comprobantes en páginas con HTTPS.",
    ),
    "it": VerifyTexts(
        "Verifica una ricevuta o un’estrazione",
        "Il file viene verificato nel tuo browser. Non viene inviato nulla.",
        "Scegli la ricevuta di una partita o il file di un’estrazione, o trascina il file qui",
        "Nessun controllo è fallito.",
        "Un controllo è fallito.",
        "Questo file non è né la ricevuta di una partita né il file di un’estrazione.",
        "Il tuo browser verifica le ricevute solo su pagine HTTPS.",
    ),
    "pt": VerifyTexts(
        "Verificar um recibo ou um sorteio",
        "O ficheiro é verificado no teu navegador. Nada é enviado.",
        "Escolhe o recibo de uma jogada ou o ficheiro de um sorteio, ou larga-o aqui",
        "Nenhuma verificação falhou.",
        "Uma verificação falhou.",
        "Este ficheiro não é o recibo de uma jogada nem o ficheiro de um sorteio.",
        "O teu navegador só verifica recibos em páginas com HTTPS.",
    ),
    "nl": VerifyTexts(
        "Een bewijs of trekking controleren",
        "Het bestand wordt in je browser gecontroleerd. Er wordt niets verzonden.",
        "Kies het bewijs van een spelbeurt of het bestand van een trekking, of sleep het hierheen",
        "Geen enkele controle is mislukt.",
        "Een controle is mislukt.",
        "Dit bestand is geen bewijs van een spelbeurt en geen bestand van een trekking.",
        "Je browser controleert bewijzen alleen op pagina’s met HTTPS.",
    ),
    "pl": VerifyTexts(
        "Sprawdź potwierdzenie lub losowanie",
        "Plik jest sprawdzany w Twojej przeglądarce. Nic nie jest wysyłane.",
        "Wybierz potwierdzenie gry lub plik losowania albo upuść go tutaj",
        "Żadne sprawdzenie nie zakończyło się błędem.",
        "Jedno ze sprawdzeń zakończyło się błędem.",
        "Ten plik nie jest potwierdzeniem gry ani plikiem losowania.",
        "Przeglądarka sprawdza potwierdzenia tylko na stronach z HTTPS.",
    ),
    "tr": VerifyTexts(
        "Makbuzu veya çekilişi doğrula",
        "Dosya tarayıcınızda doğrulanır. Hiçbir şey gönderilmez.",
        "Bir oyunun makbuzunu veya bir çekilişin dosyasını seçin ya da buraya bırakın",
        "Hiçbir kontrol başarısız olmadı.",
        "Bir kontrol başarısız oldu.",
        "Bu dosya bir oyunun makbuzu veya bir çekilişin dosyası değil.",
        "Tarayıcınız makbuzları yalnızca HTTPS sayfalarında doğrular.",
    ),
    "ar": VerifyTexts(
        "التحقق من إيصال أو سحب",
        "يُفحص الملف في متصفحك. لا يُرسل أي شيء.",
        "اختر إيصال إحدى اللعبات أو ملف أحد السحوبات، أو أفلته هنا",
        "لم يفشل أي فحص.",
        "فشل أحد الفحوص.",
        "هذا الملف ليس إيصال لعبة ولا ملف سحب.",
        "لا يفحص متصفحك الإيصالات إلا في صفحات HTTPS.",
    ),
    "ja": VerifyTexts(
        "レシートまたは抽選を検証",
        "ファイルはブラウザー内で検証されます。何も送信されません。",
        "プレイのレシートまたは抽選のファイルを選択するか、ここにドロップしてください",
        "失敗した検証はありません。",
        "検証に失敗した項目があります。",
        "このファイルはプレイのレシートでも抽選のファイルでもありません。",
        "お使いのブラウザーは HTTPS のページでのみレシートを検証できます。",
    ),
    "zh": VerifyTexts(
        "验证凭证或抽奖",
        "文件在您的浏览器中验证，不会发送任何内容。",
        "选择一次游戏的凭证或一次抽奖的文件，或将其拖放到此处",
        "没有检查失败。",
        "有一项检查失败。",
        "此文件不是游戏凭证，也不是抽奖文件。",
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
        f'<label>{escape(texts.choose)}<input type="file" accept="application/json,.json,.jsonl"></label>\n'
        '<p role="status"></p>\n<progress hidden></progress>\n<ul lang="en" dir="ltr"></ul>\n'
        '<section class="draw"></section>\n</main>'
    )
    page = whole_page(title=texts.title, description=texts.lead, loads=loads, body=body, language=language).encode()
    policy = policy_of((), styles_of(page))
    return Document.of(page, {**HEADERS, "Vary": "Accept-Language", "Content-Security-Policy": policy})
