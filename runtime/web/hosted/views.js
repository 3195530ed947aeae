// Reports a view of a campaign's page.
import { reportView } from "../widget/source.js";

const { campaign = "", tenant = "" } = document.querySelector("main")?.dataset ?? {};
reportView({ base: "", tenant }, campaign);
