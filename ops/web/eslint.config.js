// What the standard rules of ESLint say of the pages' files; types are tsc's matter.
import js from "@eslint/js";

export default [
  { ignores: ["**/built/**", "**/vendor/**"] },
  js.configs.recommended,
  {
    rules: {
      "no-undef": "off", // tsc knows what browsers have
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-script-url": "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML", "cookie", "write"].map((property) => ({ property }))],
    },
  },
];
