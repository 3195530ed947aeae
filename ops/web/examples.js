// Bundles the components of docs/examples into the directory that is given, as an integrator's tools would: a script each,
// which shows the game of the page's address in #root and counts the wins in window.won. tests/browser loads them.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { compileScript, parse } from "vue/compiler-sfc";

const EXAMPLES = join(import.meta.dirname, "../../docs/examples");
const GAME = "Object.fromEntries(new URLSearchParams(location.search))";
const WON = "(rewards) => (window.won = (window.won ?? 0) + rewards.length)";
const ENTRIES = {
  react: `import { createRoot } from "react-dom/client"; import { TombolaGame } from "./TombolaGame";
    createRoot(document.querySelector("#root")).render(<TombolaGame {...${GAME}} onWon={${WON}} />);`,
  vue: `import { createApp, h } from "vue"; import TombolaGame from "./TombolaGame.vue";
    createApp({ render: () => h(TombolaGame, { ...${GAME}, onWon: ${WON} }) }).mount("#root");`,
};

const vue = {
  name: "vue",
  setup(/** @type {import("esbuild").PluginBuild} */ { onLoad }) {
    onLoad({ filter: /\.vue$/ }, async ({ path }) => {
      const templateParseOptions = { isCustomElement: (/** @type {string} */ tag) => tag === "tombola-game" };
      const { descriptor } = parse(await readFile(path, "utf8"), { filename: path, templateParseOptions });
      return { contents: compileScript(descriptor, { id: path, inlineTemplate: true }).content, loader: "ts" };
    });
  },
};

for (const [name, contents] of Object.entries(ENTRIES)) {
  await build({
    stdin: { contents, loader: "tsx", resolveDir: EXAMPLES },
    outfile: join(process.argv[2], `${name}.js`),
    bundle: true,
    format: "esm",
    jsx: "automatic",
    nodePaths: [join(import.meta.dirname, "node_modules")],
    define: { "process.env.NODE_ENV": '"production"', __VUE_OPTIONS_API__: "false", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false" },
    plugins: [vue],
    logLevel: "error",
  });
}
