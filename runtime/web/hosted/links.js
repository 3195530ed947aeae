// Passes the utm parameters and the invitation of a campaign's page on to its games, whose widget sends them.

/** @type {NodeListOf<HTMLAnchorElement>} */
const links = document.querySelectorAll("a[href^='/p/']");
const own = [...new URLSearchParams(location.search)].filter(([name]) => name.startsWith("utm_") || name === "invite");
for (const link of own.length ? links : []) {
  const address = new URL(link.href);
  for (const [name, value] of own) address.searchParams.set(name, value);
  link.href = address.href;
}
