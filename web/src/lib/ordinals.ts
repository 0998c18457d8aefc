import { Lifetimes, Ordinals } from "./tenures";

/** Of all elections that this page has shown. */
export const ordinals = new Ordinals();
export const lifetimes = new Lifetimes();
