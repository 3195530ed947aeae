// Texts around a campaign's own (page.js).

/** By language. @type {Record<string, Record<string, string>>} */
export const WORDS = {
  en: { how: "How to play", go_on: "Continue", share: "Share", copied: "Link copied", leaving: "You leave this page in {count} s.", stay: "Stay here", legal: "Legal", terms: "Terms", privacy: "Privacy", imprint: "Imprint" },
  de: { how: "So geht’s", go_on: "Weiter", share: "Teilen", copied: "Link kopiert", leaving: "Du verlässt diese Seite in {count} s.", stay: "Hier bleiben", legal: "Rechtliches", terms: "Teilnahmebedingungen", privacy: "Datenschutz", imprint: "Impressum" },
  fr: { how: "Comment jouer", go_on: "Continuer", share: "Partager", copied: "Lien copié", leaving: "Vous quittez cette page dans {count} s.", stay: "Rester ici", legal: "Informations légales", terms: "Conditions", privacy: "Confidentialité", imprint: "Mentions légales" },
  es: { how: "Cómo jugar", go_on: "Continuar", share: "Compartir", copied: "Enlace copiado", leaving: "Saldrás de esta página en {count} s.", stay: "Quedarme aquí", legal: "Información legal", terms: "Condiciones", privacy: "Privacidad", imprint: "Aviso legal" },
  it: { how: "Come si gioca", go_on: "Continua", share: "Condividi", copied: "Link copiato", leaving: "Lascerai questa pagina tra {count} s.", stay: "Resta qui", legal: "Informazioni legali", terms: "Condizioni", privacy: "Privacy", imprint: "Note legali" },
  pt: { how: "Como jogar", go_on: "Continuar", share: "Compartilhar", copied: "Link copiado", leaving: "Você sairá desta página em {count} s.", stay: "Ficar aqui", legal: "Informações legais", terms: "Condições", privacy: "Privacidade", imprint: "Informações legais" },
  nl: { how: "Zo speel je", go_on: "Verder", share: "Delen", copied: "Link gekopieerd", leaving: "Je verlaat deze pagina over {count} s.", stay: "Hier blijven", legal: "Juridisch", terms: "Voorwaarden", privacy: "Privacy", imprint: "Colofon" },
  pl: { how: "Jak grać", go_on: "Dalej", share: "Udostępnij", copied: "Skopiowano link", leaving: "Opuścisz tę stronę za {count} s.", stay: "Zostań tutaj", legal: "Informacje prawne", terms: "Regulamin", privacy: "Prywatność", imprint: "Nota prawna" },
  tr: { how: "Nasıl oynanır", go_on: "Devam et", share: "Paylaş", copied: "Bağlantı kopyalandı", leaving: "{count} sn içinde bu sayfadan ayrılacaksın.", stay: "Burada kal", legal: "Yasal bilgiler", terms: "Koşullar", privacy: "Gizlilik", imprint: "Künye" },
  ar: { how: "طريقة اللعب", go_on: "متابعة", share: "مشاركة", copied: "تم نسخ الرابط", leaving: "ستغادر هذه الصفحة خلال {count} ث.", stay: "البقاء هنا", legal: "معلومات قانونية", terms: "الشروط", privacy: "الخصوصية", imprint: "بيانات الناشر" },
  ja: { how: "遊び方", go_on: "続ける", share: "共有", copied: "リンクをコピーしました", leaving: "{count}秒後にこのページを離れます。", stay: "このページに残る", legal: "法的情報", terms: "利用規約", privacy: "プライバシー", imprint: "運営者情報" },
  zh: { how: "玩法说明", go_on: "继续", share: "分享", copied: "链接已复制", leaving: "{count} 秒后将离开此页面。", stay: "留在此页", legal: "法律信息", terms: "条款", privacy: "隐私", imprint: "版权信息" },
};
