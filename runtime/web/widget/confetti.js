// Confetti for a win. Never with reduced motion.

import { h } from "./dom.js";

const PIECES = 90;
const SECONDS = 2.6;

/** @param {HTMLElement} frame @param {string[]} colours */
export function confetti(frame, colours) {
  const canvas = h("canvas", { class: "confetti", "aria-hidden": "true" });
  const { width, height } = frame.getBoundingClientRect();
  canvas.width = width;
  canvas.height = height;
  frame.append(canvas);
  const context = canvas.getContext("2d");
  const pieces = Array.from({ length: PIECES }, (_, i) => ({
    x: width / 2 + (Math.random() - 0.5) * width * 0.3,
    y: height * 0.35,
    across: (Math.random() - 0.5) * width * 1.1,
    up: height * (0.35 + Math.random() * 0.6),
    size: 5 + Math.random() * 7,
    spin: Math.random() * 9,
    colour: colours[i % colours.length],
  }));
  let begins = 0;
  const draw = (/** @type {number} */ time) => {
    begins ||= time;
    const passed = (time - begins) / 1000;
    if (passed > SECONDS || !canvas.isConnected) return canvas.remove();
    context.clearRect(0, 0, width, height);
    context.globalAlpha = Math.min(1, (SECONDS - passed) * 2);
    for (const piece of pieces) {
      const x = piece.x + piece.across * (1 - Math.exp(-1.6 * passed));
      const y = piece.y - piece.up * passed + height * 0.62 * passed * passed;
      context.setTransform(Math.cos(piece.spin * passed), 0, 0, 1, x, y);
      context.rotate(piece.spin + passed * 3);
      context.fillStyle = piece.colour;
      context.fillRect(-piece.size / 2, -piece.size / 4, piece.size, piece.size / 2);
    }
    context.resetTransform();
    requestAnimationFrame(draw);
  };
  requestAnimationFrame(draw);
}
