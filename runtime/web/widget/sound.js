// Synthesized sounds, created only after the player turns sound on.

/** @type {AudioContext | undefined} */
let context;

/** @param {number} frequency @param {number} seconds @param {number} [delay] @param {number} [volume] */
function tone(frequency, seconds, delay = 0, volume = 0.08) {
  context ??= new AudioContext();
  const begins = context.currentTime + delay;
  const oscillator = context.createOscillator();
  const gain = context.createGain();
  oscillator.frequency.value = frequency;
  gain.gain.setValueAtTime(volume, begins);
  gain.gain.exponentialRampToValueAtTime(0.0001, begins + seconds);
  oscillator.connect(gain).connect(context.destination);
  oscillator.start(begins);
  oscillator.stop(begins + seconds);
}

/** A field passes the pointer, an item is caught. */
export const tick = () => tone(1_300, 0.03);

/** A win. */
export const fanfare = () => [523, 659, 784, 1047].forEach((frequency, i) => tone(frequency, 0.35, i * 0.11, 0.1));
