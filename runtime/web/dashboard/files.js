// The dashboard's static files besides its module.

/** The address of a file, by its path in this folder. @param {string} path */
export const fileAddress = (path) => new URL(path, import.meta.url).href;
