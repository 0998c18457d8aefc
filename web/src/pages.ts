// The pages of the application. Each is loaded when it is first shown.

import type { Component } from "svelte";

export interface Page {
  id: string;
  title: string;
}

/** What the bar at the top leads to. */
export const PAGES: Page[] = [
  { id: "cluster", title: "Cluster" },
  { id: "elections", title: "Elections" },
  { id: "sessions", title: "Sessions" },
  { id: "keys", title: "Keys" },
  { id: "events", title: "Events" },
  { id: "doctor", title: "Doctor" },
  { id: "lab", title: "Lab" },
];

type Loader = () => Promise<{ default: Component }>;

export const loaders: Record<string, Loader> = {
  elections: () => import("./dashboard/Elections.svelte"),
  cluster: () => import("./dashboard/Cluster.svelte"),
  sessions: () => import("./dashboard/Sessions.svelte"),
  keys: () => import("./dashboard/Keys.svelte"),
  events: () => import("./dashboard/Events.svelte"),
  doctor: () => import("./dashboard/Doctor.svelte"),
  election: () => import("./dashboard/Election.svelte"),
  lab: () => import("./lab/LabPage.svelte"),
};
