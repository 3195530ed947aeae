// Loads files of the widget that the first paint does not need.

/**
 * Imports a file, by its path from this folder. Fetches it first, into the browser's cache: browsers remember a failed import
 * until the page is reloaded, so a panel that was opened offline would never open.
 * @param {string} path @returns {Promise<any>}
 */
export async function loadModule(path) {
  const answer = await fetch(new URL(path, import.meta.url));
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  await answer.blob();
  return import(path);
}
