/** Prepared sandboxes of this host: disks that users keep, from which VMs of runs start. */
export interface PreparedSandboxes {
  /**
   * Finds one by its name or by the beginning of its id.
   * @returns the absolute path of its folder, or the reason why there is not exactly one, with the known names
   */
  find(text: string): Promise<{ readonly dir: string } | { readonly problem: string }>;
}
