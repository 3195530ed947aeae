// Saves fields of a campaign with the revision that was read (optimistic lock).
import { api, Refused } from "../api.js";
import { say } from "../words.js";

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
    begun.current = await api.get("/admin/campaigns/{id}", { path });
    throw new Refused(409, { message: say("campaign.stale", { what: say("campaign.stale_other") }) });
  }
  return begun.current;
}
