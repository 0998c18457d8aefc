// Rows of a table that keys move through: j and k, Enter opens.

export class Rows {
  at = $state(0);

  /** Answers whether the key was one of the table's. */
  key(event: KeyboardEvent, count: number, open: (at: number) => void): boolean {
    const target = event.target as HTMLElement;
    if (["INPUT", "TEXTAREA", "SELECT", "BUTTON"].includes(target.tagName)) return false;
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "j" || event.key === "k") {
      this.at = Math.min(Math.max(0, this.at + (event.key === "j" ? 1 : -1)), Math.max(0, count - 1));
      document.querySelector(`[data-row="${this.at}"]`)?.scrollIntoView({ block: "nearest" });
      return true;
    }
    if (event.key === "Enter" && target.tagName !== "A" && count > 0) {
      open(this.at);
      return true;
    }
    return false;
  }
}
