// Bundles runtime/web into runtime/web/built, which the service serves. `--compare` writes nothing: it fails where the
// committed files differ.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, posix, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";
import { compile } from "sass";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PACKAGES = join(HERE, "node_modules");
const WEB = resolve(HERE, "../../runtime/web");
const BUILT = join(WEB, "built");
const OPTIONS = {
  absWorkingDir: WEB,
  bundle: true,
  charset: "utf8",
  format: "esm",
  loader: { ".svg": "copy", ".ts": "copy" },
  metafile: true,
  minify: true,
  nodePaths: [PACKAGES],
  target: "es2022",
  write: false,
};
const ENTRY = "widget/tombola.js";

/** Paths of the files in a folder of WEB. */
const filesIn = (folder) =>
  readdirSync(join(WEB, folder), { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => relative(WEB, join(file.parentPath, file.name)));

/** Without the source folder: widget/dom.js -> dom.js, hosted/themes/page.js -> themes/page.js. */
const served = (path) => path.slice(path.indexOf("/") + 1);

const entryPoints = (paths) => paths.map((path) => ({ in: path, out: served(path).replace(/\.\w+$/, "") }));

/**
 * Leaves imports of other files as imports: dynamic ones, and all where `held` names the modules of the widget's entry.
 * An import of one of these becomes an import of the entry, so that a page has each module once.
 */
const apart = (held = null) => ({
  name: "apart",
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ path, importer, kind, resolveDir }) => {
      const isOurs = resolveDir.startsWith(WEB);
      if (!isOurs || kind === "entry-point" || (!held && kind === "import-statement")) return null;
      const target = relative(WEB, resolve(resolveDir, path));
      if (target.startsWith("verifiers/")) return null; // Bundled.
      const from = held ? served(relative(WEB, importer)) : served(ENTRY);
      const address = posix.relative(posix.dirname(from), served(held?.includes(target) ? ENTRY : target));
      return { path: address.startsWith(".") ? address : `./${address}`, external: true };
    });
  },
});

/** Minifies the styles that a module of the widget has in a template, which esbuild leaves as they are. */
const styles = {
  name: "styles",
  setup({ onLoad }) {
    onLoad({ filter: /\/runtime\/web\/widget\/.*\.js$/ }, async ({ path }) => {
      let contents = readFileSync(path, "utf8");
      for (const [written, css] of contents.matchAll(/`(\n[^`$\\]*\{[^`$\\]*)`/g)) {
        const { code } = await transform(css, { charset: "utf8", loader: "css", minify: true });
        contents = contents.replace(written, () => `\`${code.trim()}\``);
      }
      return { contents };
    });
  },
};

/** The entry, with the modules that it imports; every other module in a file of its own, loaded when it is needed. */
async function widget() {
  const outdir = "built/widget";
  const found = await build({ ...OPTIONS, entryPoints: [ENTRY], outdir, plugins: [apart(), styles] });
  const held = Object.keys(found.metafile.inputs);
  const contents = held.map((path) => `export * from "./${path}";`).join("\n");
  const outfile = `${outdir}/${served(ENTRY)}`;
  const entry = await build({ ...OPTIONS, stdin: { contents, resolveDir: WEB }, outfile, plugins: [apart(), styles] });
  const others = [...filesIn("widget"), ...filesIn("hosted")].filter((path) => !held.includes(path));
  const rest = await build({ ...OPTIONS, entryPoints: entryPoints(others), outdir, plugins: [apart(held), styles] });
  // esbuild bundles what import(`./${name}.js`) may load without asking the plugin; import(path) is left alone.
  const files = [entry, rest].flatMap(({ metafile }) => Object.values(metafile.outputs));
  const modules = files.flatMap(({ inputs }) => Object.keys(inputs)).filter((path) => !path.includes("node_modules"));
  if (new Set(modules).size < modules.length) throw new Error("a module is in two files of the widget");
  return [entry, rest];
}

/** One module of all pages; the library of charts is loaded when it is needed. */
async function dashboard() {
  const chart = {
    name: "chart",
    setup: ({ onResolve }) =>
      onResolve({ filter: /^uplot$/ }, ({ kind }) => (kind === "entry-point" ? null : { path: "./uplot.js", external: true })),
  };
  const ours = entryPoints(filesIn("dashboard").filter((path) => path === "dashboard/main.js" || !path.endsWith(".js")));
  const charts = ["uplot", "uplot/dist/uPlot.min.css"].map((path) => ({ in: path, out: "uplot" }));
  return [await build({ ...OPTIONS, entryPoints: [...ours, ...charts], outdir: "built/dashboard", plugins: [chart] })];
}

/** The licences of the packages in the results. */
function licences(results) {
  const inputs = results.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean);
  return [...new Set(["@picocss/pico", ...names])].sort().map((name) => {
    const files = readdirSync(join(PACKAGES, name)).filter((file) => /^licen/i.test(file));
    const text = readFileSync(join(PACKAGES, name, files.find((file) => /mit/i.test(file)) ?? files[0]), "utf8");
    return `${name}\n\n${text.trim()}\n`;
  });
}

const results = [...(await widget()), ...(await dashboard())];
const { css } = compile(join(HERE, "pico.scss"), { loadPaths: [PACKAGES], quietDeps: true });
const pico = await transform(css, { charset: "utf8", loader: "css", minify: true });
const made = new Map([
  ...results.flatMap(({ outputFiles }) => outputFiles.map(({ path, contents }) => [relative(BUILT, path), Buffer.from(contents)])),
  ["dashboard/pico.css", Buffer.from(pico.code)],
  ["LICENSES", Buffer.from(licences(results).join("\n---\n\n"))],
].filter(([, contents]) => contents.length));

if (process.argv.includes("--compare")) {
  const kept = filesIn("built").map((path) => served(path));
  const differ = [...new Set([...kept, ...made.keys()])].filter(
    (path) => !kept.includes(path) || !made.get(path)?.equals(readFileSync(join(BUILT, path))),
  );
  if (differ.length) throw new Error(`run \`python -m ops.generate\`: ${differ.join(", ")} of runtime/web/built differ`);
} else {
  rmSync(BUILT, { recursive: true, force: true });
  for (const [path, contents] of made) {
    mkdirSync(dirname(join(BUILT, path)), { recursive: true });
    writeFileSync(join(BUILT, path), contents);
  }
}
// An error where a file imports a name that the entry does not export: two modules of it may export the same name.
const scripts = filesIn("built/widget").filter((path) => path.endsWith(".js"));
await build({ ...OPTIONS, entryPoints: scripts, outdir: "unwritten" });
