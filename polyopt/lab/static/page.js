// The page's own script.

import { page } from "./lab.js";

page(document.getElementById("lab"));
