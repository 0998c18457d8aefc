// A page that needs no server: runs of the lab, packed into it.

import { mount } from "svelte";
import "../app.css";
import ExportPage from "./ExportPage.svelte";

const target = document.getElementById("app");
if (target) mount(ExportPage, { target });
