// The stamp of a time-stamping authority (RFC 3161) in a dossier, checked with Node's X.509 and signatures.
// @ts-nocheck

import { createHash, verify, X509Certificate } from "node:crypto";

const HASHES = { "608648016503040201": "sha256", "608648016503040202": "sha384", "608648016503040203": "sha512" };
const DATA = { signed: "2a864886f70d010702", info: "2a864886f70d0109100104" };
const ATTRIBUTES = { type: "2a864886f70d010903", digest: "2a864886f70d010904" };
const STAMPING = "1.3.6.1.5.5.7.3.8";

class BadStamp extends Error {}
const need = (isTrue, text) => {
  if (!isTrue) throw new BadStamp(text);
};

/** The element of DER at an offset: its tag, content, whole bytes and end. */
function element(der, at = 0) {
  let [length, start] = [der[at + 1], at + 2];
  if (length & 0x80) {
    const bytes = length & 0x7f;
    need(bytes > 0 && bytes < 5, "it is not DER");
    length = der.readUIntBE(start, bytes);
    start += bytes;
  }
  const end = start + length;
  need(end <= der.length, "it is cut off");
  return { tag: der[at], content: der.subarray(start, end), whole: der.subarray(at, end), end };
}

/** The elements within an element. */
function within({ content }) {
  const found = [];
  for (let at = 0; at < content.length; at = found.at(-1).end) found.push(element(content, at));
  return found;
}

const hexOf = ({ content }) => content.toString("hex");
const sha = (name, bytes) => createHash(name).update(bytes).digest();

function hashOf(algorithm) {
  const name = HASHES[hexOf(within(algorithm)[0])];
  need(name, "it uses another hash than SHA-256, SHA-384 and SHA-512");
  return name;
}

/** The time of a GeneralizedTime, in UTC. */
function timeOf({ content }) {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.\d+)?Z$/.exec(content.toString()) ?? [];
  need(parts.length, "its time is not in UTC");
  const [year, month, day, ...clock] = parts.map(Number);
  return new Date(Date.UTC(year, month - 1, day, ...clock));
}

/** Whether the certificate is a trusted one, or is issued by one, through those in the stamp. */
function isTrusted(certificate, held, roots, at, depth = 0) {
  if (at < new Date(certificate.validFrom) || at > new Date(certificate.validTo)) return false;
  if (roots.some((root) => root.raw.equals(certificate.raw))) return true;
  const issues = (one) => one.ca && certificate.checkIssued(one) && certificate.verify(one.publicKey);
  return depth < 8 && [...roots, ...held].some((one) => issues(one) && isTrusted(one, held, roots, at, depth + 1));
}

/** The time at which the authority saw the note. Throws if the stamp is not of the note or not by the authority. */
export function verifyStamp(stamp, note, pem) {
  const roots = pem.match(/-----BEGIN CERTIFICATE-----[^]+?-----END CERTIFICATE-----/g)?.map((one) => new X509Certificate(one)) ?? [];
  const [status, token] = within(element(stamp));
  need(hexOf(within(status)[0]) === "00" && token, "the authority refused");
  const [kind, wrapped] = within(token);
  need(hexOf(kind) === DATA.signed, "it is not signed");
  const parts = within(within(wrapped)[0]);
  const [contentType, contentBox] = within(parts[2]);
  need(hexOf(contentType) === DATA.info, "it is no stamp");
  const info = within(contentBox)[0].content;
  const held = parts.filter((one) => one.tag === 0xa0).flatMap(within).map((one) => new X509Certificate(one.whole));

  const [, , imprint, , time] = within(element(info));
  const [algorithm, digest] = within(imprint);
  need(digest.content.equals(sha(hashOf(algorithm), note)), "it is of another checkpoint");
  const at = timeOf(time);

  const signers = within(parts.at(-1));
  need(signers.length === 1, "it does not have one signer");
  const [, issuer, hash, attributes, , signature] = within(signers[0]);
  need(attributes.tag === 0xa0, "its attributes are not signed");
  const values = Object.fromEntries(within(attributes).map((one) => [hexOf(within(one)[0]), within(within(one)[1])[0]]));
  need(values[ATTRIBUTES.type] && hexOf(values[ATTRIBUTES.type]) === DATA.info, "its signature is of something else");
  need(values[ATTRIBUTES.digest]?.content.equals(sha(hashOf(hash), info)), "its content was changed");
  // The signature is of the attributes as a SET, whose tag the token replaces.
  const signed = Buffer.concat([Buffer.from([0x31]), attributes.whole.subarray(1)]);
  const serial = BigInt(`0x${hexOf(within(issuer)[1])}`);
  const signer = [...held, ...roots].find(
    (one) =>
      BigInt(`0x${one.serialNumber}`) === serial &&
      one.keyUsage?.includes(STAMPING) &&
      verify(hashOf(hash), signed, one.publicKey, signature.content),
  );
  need(signer, "no certificate for time stamps in it has signed it");
  need(isTrusted(signer, held, roots, at), "it is of another authority");
  return at;
}
