// The dashboard's other files, which are served beside its one module.

/** The address of a file, by its path in this folder. @param {string} path */
export const fileAddress = (path) => new URL(path, import.meta.url).href;
