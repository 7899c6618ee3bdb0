// The page "Using it": examples that are filled in and copied.
import { tabs } from "../workbench/tabs.js";
import { offerCopies } from "./copying.js";
import { fillExamples } from "./filling.js";

fillExamples(document);
offerCopies(document);

const languages = document.querySelector(".languages");
languages.hidden = false;
tabs(languages);
