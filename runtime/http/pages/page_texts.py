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
    starts: str
    paused: str
    ended: str
    sold_out: str


PAGE_TEXTS: Final = {
    "en": PageTexts(
        "There is no such game, or it is over.",
        "There is no such campaign, or it is over.",
        "Themes",
        "Six looks that a game may start from: write the name into the game's ui, and change what is to be yours.",
        "There is nothing to play here right now.",
        "Play",
        "View",
        "Terms",
        "Starts {when}",
        "Paused",
        "Ended",
        "All prizes are gone",
    ),
    "de": PageTexts(
        "Dieses Spiel gibt es nicht, oder es ist vorbei.",
        "Diese Aktion gibt es nicht, oder sie ist vorbei.",
        "Designs",
        "Sechs Designs, mit denen ein Spiel beginnen kann: Schreib den Namen in die ui des Spiels, und"
        " ändere, was deins sein soll.",
        "Hier gibt es gerade nichts zu spielen.",
        "Spielen",
        "Ansehen",
        "Teilnahmebedingungen",
        "Beginn: {when}",
        "Pausiert",
        "Beendet",
        "Alle Preise sind vergeben",
    ),
    "fr": PageTexts(
        "Ce jeu n’existe pas, ou il est terminé.",
        "Cette opération n’existe pas, ou elle est terminée.",
        "Thèmes",
        "Six apparences dont un jeu peut partir : écrivez le nom dans l’ui du jeu, puis changez ce qui doit"
        " être à vous.",
        "Il n’y a rien à jouer ici pour le moment.",
        "Jouer",
        "Voir",
        "Conditions",
        "Début : {when}",
        "En pause",
        "Terminé",
        "Tous les lots ont été gagnés",
    ),
    "es": PageTexts(
        "Este juego no existe o ya ha terminado.",
        "Esta promoción no existe o ya ha terminado.",
        "Temas",
        "Seis aspectos de los que puede partir un juego: escribe el nombre en la ui del juego y cambia lo"
        " que deba ser tuyo.",
        "Ahora no hay nada a lo que jugar aquí.",
        "Jugar",
        "Ver",
        "Condiciones",
        "Empieza: {when}",
        "En pausa",
        "Terminado",
        "Ya no quedan premios",
    ),
    "it": PageTexts(
        "Questo gioco non esiste o è finito.",
        "Questa promozione non esiste o è finita.",
        "Temi",
        "Sei aspetti da cui un gioco può partire: scrivi il nome nella ui del gioco e cambia ciò che deve essere tuo.",
        "Al momento qui non c’è nulla da giocare.",
        "Gioca",
        "Vedi",
        "Condizioni",
        "Inizio: {when}",
        "In pausa",
        "Terminato",
        "I premi sono finiti",
    ),
    "pt": PageTexts(
        "Este jogo não existe ou já terminou.",
        "Esta promoção não existe ou já terminou.",
        "Temas",
        "Seis visuais dos quais um jogo pode partir: escreva o nome na ui do jogo e mude o que deve ser seu.",
        "Não há nada para jogar aqui neste momento.",
        "Jogar",
        "Ver",
        "Condições",
        "Início: {when}",
        "Em pausa",
        "Terminado",
        "Os prêmios acabaram",
    ),
    "nl": PageTexts(
        "Dit spel bestaat niet of is voorbij.",
        "Deze actie bestaat niet of is voorbij.",
        "Thema’s",
        "Zes uiterlijken waarmee een spel kan beginnen: zet de naam in de ui van het spel en verander wat"
        " van jou moet zijn.",
        "Er is hier nu niets te spelen.",
        "Spelen",
        "Bekijken",
        "Voorwaarden",
        "Begint: {when}",
        "Gepauzeerd",
        "Afgelopen",
        "Alle prijzen zijn op",
    ),
    "pl": PageTexts(
        "Nie ma takiej gry albo już się skończyła.",
        "Nie ma takiej akcji albo już się skończyła.",
        "Motywy",
        "Sześć wyglądów, od których gra może zacząć: wpisz nazwę do ui gry i zmień to, co ma być twoje.",
        "Teraz nie ma tu w co grać.",
        "Graj",
        "Zobacz",
        "Regulamin",
        "Początek: {when}",
        "Wstrzymana",
        "Zakończona",
        "Wszystkie nagrody zostały rozdane",
    ),
    "tr": PageTexts(
        "Böyle bir oyun yok ya da sona erdi.",
        "Böyle bir kampanya yok ya da sona erdi.",
        "Temalar",
        "Bir oyunun başlayabileceği altı görünüm: adı oyunun ui bölümüne yaz, sana özel olmasını"
        " istediklerini değiştir.",
        "Şu anda burada oynanacak bir şey yok.",
        "Oyna",
        "Görüntüle",
        "Koşullar",
        "Başlangıç: {when}",
        "Duraklatıldı",
        "Sona erdi",
        "Bütün ödüller bitti",
    ),
    "ar": PageTexts(
        "هذه اللعبة غير موجودة أو انتهت.",
        "هذه الحملة غير موجودة أو انتهت.",
        "السمات",
        "ستة مظاهر يمكن أن تبدأ بها لعبة: اكتب الاسم في ui اللعبة، ثم غيّر ما تريده أن يكون خاصًا بك.",
        "لا شيء يمكن لعبه هنا الآن.",
        "العب",
        "عرض",
        "الشروط",
        "تبدأ: {when}",
        "متوقفة مؤقتًا",
        "انتهت",
        "نفدت كل الجوائز",
    ),
    "ja": PageTexts(
        "このゲームは存在しないか、終了しています。",
        "このキャンペーンは存在しないか、終了しています。",
        "テーマ",
        "ゲームの出発点になる6つのデザインです。名前をゲームのuiに書き、自分らしくしたいところを変えてください。",
        "現在、ここで遊べるものはありません。",
        "遊ぶ",
        "見る",
        "利用規約",
        "開始：{when}",
        "一時停止中",
        "終了",
        "景品はすべてなくなりました",
    ),
    "zh": PageTexts(
        "此游戏不存在或已结束。",
        "此活动不存在或已结束。",
        "主题",
        "游戏可以采用的六种外观：把名称写进游戏的 ui，再改成你想要的样子。",
        "目前这里没有可玩的游戏。",
        "开始玩",
        "查看",
        "条款",
        "开始时间：{when}",
        "已暂停",
        "已结束",
        "奖品已全部送完",
    ),
}
"""By language."""
