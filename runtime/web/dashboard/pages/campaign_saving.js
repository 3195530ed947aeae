// Saves fields of a campaign with the revision that was read (optimistic lock).
import { api, Refused } from "../api.js";
import { differing } from "../parts/compared.js";
import { label, say } from "../words.js";

/**
 * Saves the fields and returns the campaign. After a conflict the current campaign is read, so that saving again works.
 * @param {{current: any}} begun the campaign as it was read
 * @param {Record<string, any>} fields
 */
export async function saveCampaign(begun, fields) {
  const path = { id: begun.current.id };
  try {
    begun.current = await api.put("/admin/campaigns/{id}", { path, body: { ...fields, revision: begun.current.revision } });
  } catch (refused) {
    if (/** @type {any} */ (refused).reason !== "STALE_REVISION") {
      throw refused;
    }
    const before = begun.current;
    begun.current = await api.get("/admin/campaigns/{id}", { path });
    const theirs = differing(before, begun.current).filter((name) => name in fields).map(label);
    if (!theirs.length) return saveCampaign(begun, fields); // Others changed other fields.
    throw new Refused(409, { message: say("campaign.stale", { what: theirs.join(", ") }) });
  }
  return begun.current;
}
