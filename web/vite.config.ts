import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// `make web-dev` shows the pages as they are edited, with the answers of a member that runs.
const member = process.env["TENURE_URL"] ?? "http://127.0.0.1:2379";

/** A member serves its own pages only: to it, requests of the dev server are those of a program. */
const asProgram = {
  target: member,
  changeOrigin: true,
  headers: { accept: "application/json" },
  configure(proxy: { on(event: "proxyReq", handler: (request: { removeHeader(name: string): void }) => void): void }) {
    proxy.on("proxyReq", (request) => {
      for (const name of ["origin", "referer", "sec-fetch-site", "sec-fetch-mode"]) request.removeHeader(name);
    });
  },
};

export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    target: "es2022",
    // The policy of the pages allows nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/v3": asProgram, "/health": asProgram, "/metrics": asProgram, "/lab": asProgram, "/ui/facts.json": asProgram } },
  test: { include: ["tests/**/*.test.ts"] },
});
