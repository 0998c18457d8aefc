import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// One script and one style sheet, which `tenure lab export` writes into a page.
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "dist/export",
    cssCodeSplit: false,
    reportCompressedSize: false,
    lib: { entry: "src/export/main.ts", formats: ["iife"], name: "tenureLab", fileName: () => "export.js", cssFileName: "export" },
  },
});
