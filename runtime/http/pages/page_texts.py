"""Texts of the hosted pages, in the languages of the widget."""

from __future__ import annotations

from typing import Final, NamedTuple


class PageTexts(NamedTuple):
    """The texts of one language. themes: the title of the themes page; themes_lead: the sentence under it.

    The rest is of a campaign's page. play, view: what opens a game, and one that cannot be played.
    """

    no_game: str
    no_campaign: str
    themes: str
    themes_lead: str
    no_games: str
    play: str
    view: str
    terms: str
    privacy: str
    imprint: str
    starts: str
    paused: str
    ended: str
    sold_out: str


PAGE_TEXTS: Final = {
    "en": PageTexts(
        "This game does not exist or has ended.",
        "This campaign does not exist or has ended.",
        "Themes",
        "Six themes for your games. Set the theme's name in the game's ui and adjust it.",
        "No games are available right now.",
        "Play",
        "View",
        "Terms",
        "Privacy",
        "Imprint",
        "Starts {when}",
        "Paused",
        "Ended",
        "All prizes have been won",
    ),
    "de": PageTexts(
        "Dieses Spiel gibt es nicht, oder es ist vorbei.",
        "Diese Aktion gibt es nicht, oder sie ist vorbei.",
        "Designs",
        "Sechs Designs für deine Spiele. Trag den Namen in die ui des Spiels ein und passe das Design an.",
        "Derzeit sind keine Spiele verfügbar.",
        "Spielen",
        "Ansehen",
        "Teilnahmebedingungen",
        "Datenschutz",
        "Impressum",
        "Beginn: {when}",
        "Pausiert",
        "Beendet",
        "Alle Preise sind vergeben",
    ),
    "fr": PageTexts(
        "Ce jeu n’existe pas, ou il est terminé.",
        "Cette opération n’existe pas, ou elle est terminée.",
        "Thèmes",
        "Six thèmes pour vos jeux. Indiquez le nom du thème dans l’ui du jeu, puis personnalisez-le.",
        "Aucun jeu n’est disponible pour le moment.",
        "Jouer",
        "Voir",
        "Conditions",
        "Confidentialité",
        "Mentions légales",
        "Début : {when}",
        "En pause",
        "Terminé",
        "Tous les lots ont été gagnés",
    ),
    "es": PageTexts(
        "Este juego no existe o ya ha terminado.",
        "Esta promoción no existe o ya ha terminado.",
        "Temas",
        "Seis temas para tus juegos. Indica el nombre del tema en la ui del juego y personalízalo.",
        "No hay juegos disponibles en este momento.",
        "Jugar",
        "Ver",
        "Condiciones",
        "Privacidad",
        "Aviso legal",
        "Empieza: {when}",
        "En pausa",
        "Terminado",
        "Ya se han ganado todos los premios",
    ),
    "it": PageTexts(
        "Questo gioco non esiste o è finito.",
        "Questa promozione non esiste o è finita.",
        "Temi",
        "Sei temi per i tuoi giochi. Indica il nome del tema nella ui del gioco e personalizzalo.",
        "Al momento non ci sono giochi disponibili.",
        "Gioca",
        "Vedi",
        "Condizioni",
        "Privacy",
        "Note legali",
        "Inizio: {when}",
        "In pausa",
        "Terminato",
        "Tutti i premi sono stati vinti",
    ),
    "pt": PageTexts(
        "Este jogo não existe ou já terminou.",
        "Esta promoção não existe ou já terminou.",
        "Temas",
        "Seis temas para os seus jogos. Informe o nome do tema na ui do jogo e personalize-o.",
        "Não há jogos disponíveis neste momento.",
        "Jogar",
        "Ver",
        "Condições",
        "Privacidade",
        "Informações legais",
        "Início: {when}",
        "Em pausa",
        "Terminado",
        "Todos os prêmios já foram ganhos",
    ),
    "nl": PageTexts(
        "Dit spel bestaat niet of is voorbij.",
        "Deze actie bestaat niet of is voorbij.",
        "Thema’s",
        "Zes thema’s voor je spellen. Zet de naam van het thema in de ui van het spel en pas het aan.",
        "Er zijn nu geen spellen beschikbaar.",
        "Spelen",
        "Bekijken",
        "Voorwaarden",
        "Privacy",
        "Colofon",
        "Begint: {when}",
        "Gepauzeerd",
        "Afgelopen",
        "Alle prijzen zijn op",
    ),
    "pl": PageTexts(
        "Nie ma takiej gry albo już się skończyła.",
        "Nie ma takiej akcji albo już się skończyła.",
        "Motywy",
        "Sześć motywów dla Twoich gier. Wpisz nazwę motywu w ui gry i dostosuj go.",
        "Obecnie żadne gry nie są dostępne.",
        "Graj",
        "Zobacz",
        "Regulamin",
        "Prywatność",
        "Nota prawna",
        "Początek: {when}",
        "Wstrzymana",
        "Zakończona",
        "Wszystkie nagrody zostały rozdane",
    ),
    "tr": PageTexts(
        "Böyle bir oyun yok ya da sona erdi.",
        "Böyle bir kampanya yok ya da sona erdi.",
        "Temalar",
        "Oyunların için altı tema. Temanın adını oyunun ui bölümüne yaz ve özelleştir.",
        "Şu anda oynanabilecek oyun yok.",
        "Oyna",
        "Görüntüle",
        "Koşullar",
        "Gizlilik",
        "Künye",
        "Başlangıç: {when}",
        "Duraklatıldı",
        "Sona erdi",
        "Bütün ödüller bitti",
    ),
    "ar": PageTexts(
        "هذه اللعبة غير موجودة أو انتهت.",
        "هذه الحملة غير موجودة أو انتهت.",
        "السمات",
        "ست سمات لألعابك. اكتب اسم السمة في ui اللعبة ثم خصّصها.",
        "لا توجد ألعاب متاحة حاليًا.",
        "العب",
        "عرض",
        "الشروط",
        "الخصوصية",
        "بيانات الناشر",
        "تبدأ: {when}",
        "متوقفة مؤقتًا",
        "انتهت",
        "نفدت كل الجوائز",
    ),
    "ja": PageTexts(
        "このゲームは存在しないか、終了しています。",
        "このキャンペーンは存在しないか、終了しています。",
        "テーマ",
        "ゲーム用の6つのテーマです。テーマ名をゲームのuiに指定し、カスタマイズしてください。",
        "現在、プレイできるゲームはありません。",
        "遊ぶ",
        "見る",
        "利用規約",
        "プライバシー",
        "運営者情報",
        "開始：{when}",
        "一時停止中",
        "終了",
        "賞品はすべてなくなりました",
    ),
    "zh": PageTexts(
        "此游戏不存在或已结束。",
        "此活动不存在或已结束。",
        "主题",
        "六种游戏主题。在游戏的 ui 中填写主题名称，然后自行调整。",
        "目前没有可玩的游戏。",
        "开始玩",
        "查看",
        "条款",
        "隐私",
        "版权信息",
        "开始时间：{when}",
        "已暂停",
        "已结束",
        "奖品已全部送完",
    ),
}
"""By language."""
