// Turkish: what the panels say. The keys and their order are those of en.js.

export default {
  prize_gone: "tükendi",
  fair_before: "Sen oynamadan önce belirlendi",
  fair_text: "Sonuç, senin sayın bilinmeden önce belirlenmişti. Aşağıdaki sayılarla herkes yeniden hesaplayabilir.",
  fair_seed_hash: "Gizli sayının özeti, önceden gösterildi",
  fair_seed: "Gizli sayı, sonradan gösterildi",
  fair_client_seed: "Senin sayın",
  fair_check: "Şimdi doğrula",
  fair_download: "JSON olarak indir",
  fair_none: "Önce oyna: sonra doğrulanacak bir çekiliş olur.",
  fair_good: "Her şey tutuyor.",
  fair_bad: "Bir şey tutmuyor.",
  fair_step_seed: "Gizli sayının özeti, oyundan önce gösterilenle aynı.",
  fair_step_commitment: "Verilen söz bu özeti, kuralları ve bu oturumu birbirine bağlıyor.",
  fair_step_terms: "Kurallar, söz verilen kurallar.",
  fair_step_no_terms: "Düzenleyen bu oyunun kurallarını yayımlamıyor; bu yüzden çekiliş burada yeniden hesaplanamıyor.",
  fair_step_draw: "İki sayı birlikte {word} ediyor: sonuç {drawn}.",
  fair_step_nothing: "ödül yok",
  fair_step_same: "Sana bildirilen de bu.",
  fair_step_gone: "Sana başka bir sonuç bildirildi. {drawn} o sırada tükenmişse bu doğru: bunun kuralı “{rule}”. Tükenip tükenmediği buradan görülemez.",
  fair_step_other: "Sana başka bir sonuç bildirildi.",
};
